#!/usr/bin/env bash
# Kills N processes of runs at random moments, and stops N, and sees that each is named and that its run goes on to the undisturbed bits.
#
#   tests/faults/run.sh N [SEED [shares|shards|stages]]      with --shard-parameters, --shards-over, or --stages
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4p' "$0"; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${DT_BUILD:-$source/build}
exec env PATH="$build:$PATH" DT_SOURCE="$source" DT_BUILD="$build" DT_PYTHON="${DT_PYTHON:-$source/.venv/bin/python}" \
    "${DT_PYTHON:-$source/.venv/bin/python}" "$source/tests/faults/faults.py" "$@"
