#!/usr/bin/env bash
# Has N trainings with parameter servers write checkpoints while 5,000 strangers are connected to a server, and sees that each ends with its bytes.
#
#   tests/faults/strangers.sh N [SEED]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4p' "$0"; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${DT_BUILD:-$source/build}
exec env PATH="$build:$PATH" DT_SOURCE="$source" DT_BUILD="$build" DT_PYTHON="${DT_PYTHON:-$source/.venv/bin/python}" \
    "${DT_PYTHON:-$source/.venv/bin/python}" "$source/tests/faults/strangers.py" "$@"
