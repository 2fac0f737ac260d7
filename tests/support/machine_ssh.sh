#!/bin/sh
# ssh to a machine of machines.py, which is a network namespace: machine_ssh.sh [OPTION...] MACHINE COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
machine=$1
shift
mkdir -p "$MACHINES/$machine" "$MACHINES/own"
exec ip netns exec "$machine" unshare --uts --mount sh -c 'mount --bind "$MACHINES/$0" "$MACHINES/own" && hostname "$0" && exec sh -c "$1"' "$machine" "$*"
