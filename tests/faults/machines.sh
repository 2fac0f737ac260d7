#!/usr/bin/env bash
# Trains over four machines, which are namespaces of this one: by dtrun launch, which loses a process and a machine; then cuts the link of one of them N
# times, slows links down, and loses packets. Each run ends with the bytes of one process, or in time and with a message that names the machine that was
# cut off, and goes on from its checkpoint without it.
#
#   tests/faults/machines.sh N [SEED]        needs root; exits with 77 where this process may not make namespaces
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,6p' "$0"; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
exec "$source/tests/support/machines.sh" "$source/tests/faults/machines.py" "$@"
