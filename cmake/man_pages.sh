#!/bin/sh
# Writes the man pages of a program of ours and of each of its commands, made by help2man from what --help says:
#
#   man_pages.sh PROGRAM VERSION FOLDER     FOLDER/NAME.1, FOLDER/NAME-COMMAND.1
set -eu
program=$1 version=$2 folder=$3
name=${program##*/}

# page "dtc compile" "what it does"
page() {
    title=$(echo "$1" | tr ' ' -)
    help2man --no-info --no-discard-stderr --version-string="$title $version" --name="$2" --output="$folder/$title.1" "$1"
}

PATH=${program%/*}:$PATH
page "$name" "$("$program" --help | sed -n 3p | sed 's/\.$//')"
"$program" --help | sed -n 's/^  \([a-z][a-z-]*\)  *\(.*\)$/\1 \2/p' | while read -r command what; do page "$name $command" "$what"; done
