#!/usr/bin/env bash
# Static analysis of the C files that the build compiles: clang-tidy, with the checks of .clang-tidy, and cppcheck, with what scripts/cppcheck/ says of the
# project. Prints what they find, and exits with 1 when that is anything. A file without a finding is not read again until it or its headers change.
#
#   scripts/analyze.sh              all files
#   scripts/analyze.sh PATH...      those files, and those below those folders: scripts/analyze.sh base runtime/checkpoint.c
set -euo pipefail
case ${1-} in -*) sed -n '2,6p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."

scripts/install.sh clang-tidy-19 cppcheck
[ -e build/compile_commands.json ] || cmake --preset release >/dev/null
cmake --build build >/dev/null # what is generated, and objects that are newer than what they are made of
results=build/analysis
mkdir -p $results/cppcheck

# tidy "FILE OBJECT": clang-tidy of a file, unless nothing was found in it since its object was made.
tidy() {
    local file=${1% *} object=build/${1#* } results=$2 found
    local clean=$results/$file.clean
    if [ "$clean" -nt "$object" ] && [ "$clean" -nt .clang-tidy ] && [ "$clean" -nt tests/.clang-tidy ]; then return; fi
    mkdir -p "$(dirname "$clean")"
    found=$(clang-tidy-19 -p build --quiet "$file" 2>&1) && touch "$clean" && return
    printf '%s\n' "$found"
    return 1
}
export -f tidy

# "FILE OBJECT" of each file that is asked for and was not generated.
files=$(python3 - "$@" <<'END'
import json, os, re, sys

asked = [os.path.normpath(path) for path in sys.argv[1:]]
objects = {os.path.relpath(one["file"]): re.search(r" -o (\S+)", one["command"])[1] for one in json.load(open("build/compile_commands.json"))}
for path, output in sorted(objects.items()):
    if not path.startswith("build") and (not asked or any(path == a or path.startswith(a + "/") for a in asked)):
        print(path, output)
END
)
[ -n "$files" ] || { echo "analyze.sh: the build compiles nothing of: $*" >&2; exit 2; }

code=0
xargs -P "$(nproc)" -d '\n' -I {} bash -c 'tidy "{}" '$results <<<"$files" || code=1

filters=()
[ $# -eq 0 ] || while read -r file _; do filters+=("--file-filter=$file"); done <<<"$files"
cppcheck --project=build/compile_commands.json -i build "${filters[@]}" --cppcheck-build-dir=$results/cppcheck -j "$(nproc)" --quiet --error-exitcode=1 \
    --enable=warning,performance,portability --library=posix,gnu,scripts/cppcheck/macros.cfg --suppressions-list=scripts/cppcheck/suppressions.txt \
    --inline-suppr --template='{file}:{line}: {severity}: {message} [{id}]' || code=1

[ $code -ne 0 ] || echo "no finding in $(wc -l <<<"$files") files"
exit $code
