#!/usr/bin/env bash
# Starts runs in which one member is different, N of each kind: another option, artifact or data; one that is stopped while the others look for it; a worker
# that joins with other data. Each run names the right one, and where the others can go on they do, to the same bits.
#
#   tests/faults/members.sh N [SEED]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,5p' "$0"; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${DT_BUILD:-$source/build}
exec env PATH="$build:$PATH" DT_SOURCE="$source" DT_BUILD="$build" DT_PYTHON="${DT_PYTHON:-$source/.venv/bin/python}" \
    "${DT_PYTHON:-$source/.venv/bin/python}" "$source/tests/faults/members.py" "$@"
