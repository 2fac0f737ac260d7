#!/usr/bin/env bash
# A bare Debian 12 (debootstrap, minbase) in build-bare/debian, made once and kept. Prints its path; it is to be copied, not used itself.
#
#   scripts/debian.sh
#
# Needs root, a network, and the right to mount and chroot; without, it prints what it misses and exits with 77.
set -euo pipefail
[ $# = 0 ] || { sed -n '2,6p' "$0"; exit 2; }
cd "$(dirname "$0")/.."

cannot() { echo "$*"; exit 77; }

[ "$(id -u)" = 0 ] || cannot "that needs root"
command -v debootstrap >/dev/null || cannot "there is no debootstrap"
unshare --mount true || cannot "this process may not mount"

base=$PWD/build-bare/debian
if [ ! -e "$base/complete" ]; then
    rm -rf --one-file-system "$base"
    mkdir -p "$base"
    debootstrap --variant=minbase bookworm "$base" http://deb.debian.org/debian >build-bare/debootstrap.log 2>&1 ||
        cannot "debootstrap failed: $(tail -n 1 build-bare/debootstrap.log)"
    touch "$base/complete"
fi
echo "$base"
