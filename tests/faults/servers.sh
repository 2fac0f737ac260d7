#!/usr/bin/env bash
# Lets parameter servers and workers meet N faults at random moments, and sees that each run ends right, or with a name and goes on.
#
#   tests/faults/servers.sh N [SEED [rows | asynchronous]]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4p' "$0"; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${DT_BUILD:-$source/build}
exec env PATH="$build:$PATH" DT_SOURCE="$source" DT_BUILD="$build" DT_PYTHON="${DT_PYTHON:-$source/.venv/bin/python}" \
    "${DT_PYTHON:-$source/.venv/bin/python}" "$source/tests/faults/servers.py" "$@"
