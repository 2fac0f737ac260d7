#!/usr/bin/env bash
# Starts N processes with wrong addresses beside two trainings with parameter servers, and sees that each ends alone with a sentence about it.
#
#   tests/faults/jobs.sh N [SEED]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4p' "$0"; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${DT_BUILD:-$source/build}
exec env PATH="$build:$PATH" DT_SOURCE="$source" DT_BUILD="$build" DT_PYTHON="${DT_PYTHON:-$source/.venv/bin/python}" \
    "${DT_PYTHON:-$source/.venv/bin/python}" "$source/tests/faults/jobs.py" "$@"
