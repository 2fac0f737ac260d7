#!/usr/bin/env bash
# Runs a Python script that makes machines of network namespaces (machines.py).
#
#   tests/support/machines.sh SCRIPT [ARGUMENT...]      needs root; exits with 77 where this process may not make namespaces
#
# Network, mounts, host name and process ids are of namespaces that are gone with this command, however it ends: nothing of the host is touched.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
export DT_SOURCE=$source DT_BUILD=${DT_BUILD:-$source/build} DT_PYTHON=${DT_PYTHON:-$source/.venv/bin/python}
export PATH=$DT_BUILD:$PATH

namespaces=(unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc)
"${namespaces[@]}" mount -t tmpfs tmpfs /run 2>/dev/null || { echo "skipped: this process may not make namespaces"; exit 77; }
exec "${namespaces[@]}" bash -euc '
    mount -t tmpfs tmpfs /run
    export TMPDIR=/run/tmp MACHINES=/run/machines && mkdir $TMPDIR $MACHINES
    exec "$DT_PYTHON" "$@"
' machines "$@"
