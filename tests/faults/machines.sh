#!/usr/bin/env bash
# Trains over four machines, which are namespaces of this one: cuts the link of one of them N times, slows links down, and loses packets. Each run ends with
# the bytes of one process, or in time and with a message that names the machine that was cut off, and goes on from its checkpoint without it.
#
#   tests/faults/machines.sh N [SEED]        needs root; exits with 77 where this process may not make namespaces
#
# Network, mounts, host name and process ids are of namespaces that are gone with this command, however it ends: nothing of the host is touched.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,5p' "$0"; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
export DT_SOURCE=$source DT_BUILD=${DT_BUILD:-$source/build} DT_PYTHON=${DT_PYTHON:-$source/.venv/bin/python}
export PATH=$DT_BUILD:$PATH

namespaces=(unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc)
"${namespaces[@]}" mount -t tmpfs tmpfs /run 2>/dev/null || { echo "skipped: this process may not make namespaces"; exit 77; }
exec "${namespaces[@]}" bash -euc '
    mount -t tmpfs tmpfs /run
    export TMPDIR=/run/tmp && mkdir $TMPDIR
    exec "$DT_PYTHON" "$DT_SOURCE/tests/faults/machines.py" "$@"
' machines "$@"
