#!/bin/sh
# ssh to a machine of machines.py, which is a network namespace: machine_ssh.sh [OPTION...] MACHINE COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
machine=$1
shift
export DT_STATE_DIR="$TMPDIR/state-$machine" # a file system of its own, as far as processes look
exec ip netns exec "$machine" unshare --uts sh -c 'hostname "$0" && exec sh -c "$1"' "$machine" "$*"
