#!/bin/sh
# Writes what bash, zsh and fish complete for a program of ours, made from what its own --help says, which is printed from its option tables:
#
#   completions.sh PROGRAM FOLDER     FOLDER/NAME.bash, FOLDER/_NAME (zsh), FOLDER/NAME.fish
set -eu
program=$1 folder=$2
name=${program##*/}

# "command description" a line: the indented rows of the program's own help.
commands() { "$program" --help | sed -n 's/^  \([a-z][a-z-]*\)  *\(.*\)$/\1 \2/p'; }

# A command that cannot say what it takes would have no options, and nobody would notice.
commands | while read -r command _; do "$program" "$command" --help >/dev/null; done

# "short long argument description" of each option of a command, separated by tabs; "-" where there is none.
options() {
    "$program" "$1" --help | awk '
        function flush() {
            sub(/ \(.*|[;:.] .*/, "", text)
            if (long != "") printf "%s\t%s\t%s\t%s\n", short, long, argument, text
            if (long != "" && alias != "") printf "-\t%s\t%s\t%s\n", alias, argument, text
            long = ""
        }
        /^  (-[A-Za-z?], |    )--[a-z]/ {
            flush()
            alias = match($0, /, --[a-z0-9-]+/) && RSTART > 6 ? substr($0, RSTART + 4, RLENGTH - 4) : ""
            if (alias != "") sub(/, --[a-z0-9-]+(=[^ ]*)?  /, "  ", $0)
            match($0, /--[a-z][a-z0-9-]*/)
            long = substr($0, RSTART + 2, RLENGTH - 2); rest = substr($0, RSTART + RLENGTH)
            short = match($0, /^ *-[A-Za-z?],/) ? substr($0, RSTART + RLENGTH - 2, 1) : "-"
            argument = "-"
            if (match(rest, /^\[?=[^ ]*/)) {
                argument = substr(rest, RSTART, RLENGTH)
                gsub(/^\[?=|\]$/, "", argument)
                rest = substr(rest, RSTART + RLENGTH)
            }
            sub(/^ +/, "", rest)
            text = rest
            next
        }
        match($0, /[^ ]/) && RSTART > 20 && long != "" { text = text (text == "" ? "" : " ") substr($0, RSTART); next }
        { flush() }
        END { flush() }'
}

# Descriptions, which are cut where a first clause ends, go into quotes of three shells: without what any of them reads as syntax.
plain() { sed "s/[][\`'\"\\\\:\$]//g"; }

{
    echo "# bash completion of $name"
    echo "_$name() {"
    echo '    local word=${COMP_WORDS[COMP_CWORD]} words='
    echo '    if [ "$COMP_CWORD" -eq 1 ]; then'
    echo "        words='$(commands | sed 's/ .*//' | tr '\n' ' ')--help --version'"
    echo '    elif [ "${word#-}" != "$word" ]; then'
    echo '        case ${COMP_WORDS[1]} in'
    commands | while read -r command _; do
        echo "        $command) words='$(options "$command" | awk -F '\t' '{ printf "%s--%s", (NR > 1 ? " " : ""), $2 }')' ;;"
    done
    echo '        esac'
    echo '    else'
    echo '        COMPREPLY=($(compgen -f -- "$word"))'
    echo '        return'
    echo '    fi'
    echo '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    echo '}'
    echo "complete -o filenames -F _$name $name"
} >"$folder/$name.bash"

{
    echo "#compdef $name"
    echo "local -a commands=("
    commands | plain | sed "s/^\([^ ]*\) \(.*\)/    '\1:\2'/"
    echo ")"
    echo "if (( CURRENT == 2 )); then _describe command commands; return; fi"
    echo 'local command=$words[2]'
    echo 'shift words; (( CURRENT-- ))'
    echo 'case $command in'
    commands | while read -r command _; do
        echo "$command) _arguments -s \\"
        options "$command" | plain | awk -F '\t' '{
            value = $3 == "-" ? "" : ":" $3 ":_files"
            if ($1 != "-") printf "    \047-%s[%s]%s\047 \\\n", $1, $4, value
            printf "    \047--%s%s[%s]%s\047 \\\n", $2, $3 == "-" ? "" : "=", $4, value }'
        echo "    '*:file:_files' ;;"
    done
    echo 'esac'
} >"$folder/_$name"

{
    echo "# fish completion of $name"
    commands | plain | sed "s/^\([^ ]*\) \(.*\)/complete -c $name -n __fish_use_subcommand -f -a \1 -d '\2'/"
    commands | while read -r command _; do
        options "$command" | plain | awk -F '\t' -v name="$name" -v command="$command" '{
            printf "complete -c %s -n \047__fish_seen_subcommand_from %s\047 -l %s%s%s -d \047%s\047\n", name, command, $2,
                $1 == "-" ? "" : " -s \047" $1 "\047", $3 == "-" ? "" : " -r", $4 }'
    done
} >"$folder/$name.fish"
