#!/usr/bin/env bash
# Builds the fuzzers of tests/fuzz and runs each for ten minutes, as many at a time as there are processors. A line for each says how many inputs it
# ran and how many edges of the code they reach. Exit status 1: there is a finding; the line names the command that shows it again.
#
#   scripts/fuzz.sh [--seconds N] [TARGET...]
#
#   --seconds N   how long each runs (default: 600)
#   TARGET        only these (default: all): the names of the files in tests/fuzz, as in `scripts/fuzz.sh --seconds 60 dsl options`
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,8p' scripts/fuzz.sh | sed 's/^# \{0,1\}//'; }

seconds=600
targets=()
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage && exit 0 ;;
    --seconds) seconds=${2-} && shift ;;
    -*) usage >&2 && exit 2 ;;
    *) targets+=("$1") ;;
    esac
    shift
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz.sh: --seconds takes a number" >&2 && exit 2; }
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(basename -s .c tests/fuzz/*.c)
for target in "${targets[@]}"; do
    [ -e "tests/fuzz/$target.c" ] || { echo "fuzz.sh: there is no tests/fuzz/$target.c" >&2 && exit 2; }
done

scripts/install.sh clang
scripts/install.sh "libclang-rt-$(clang -dumpversion | cut -d . -f 1)-dev"
cmake --preset fuzz >/dev/null
cmake --build build-fuzz --target "${targets[@]/#/fuzz_}"
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I TARGET tests/fuzz/run.sh build-fuzz TARGET "$seconds" || exit 1
