#!/usr/bin/env bash
# Runs a command of the project on a bare Debian 12 (debootstrap, minbase), in a copy of this working tree: what happens to be installed on this
# machine does not help there.
#
#   scripts/bare.sh [--with PATH] COMMAND       such as './scripts/quickstart.sh 1'; PATH, of this folder, is brought along though git ignores it
#
# Needs root, a network, and the right to mount and chroot; without, it says what it misses and exits with 77. A command gets a copy of the
# bare system, which is removed when it ends.
set -euo pipefail
with=
[ "${1-}" != --with ] || { with=${2-} && shift 2; }
case ${1-} in "" | -*) sed -n '2,8p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."

base=$(scripts/debian.sh) || { echo "$base" && exit 77; }

root=$(mktemp -d "$PWD/build-bare/run-XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
cp -a "$base/." "$root"

# The way to the network is this machine's: its names, its package index, its certificates.
for path in /etc/hosts /etc/resolv.conf /etc/pip.conf /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates; do
    [ ! -e $path ] || { mkdir -p "$root${path%/*}" && cp -rLT $path "$root$path"; }
done

# Tracked files and new ones, as they stand here.
mkdir -p "$root/src/dt"
git ls-files -z --cached --others --exclude-standard | tar --create --null --ignore-failed-read --files-from - | tar --extract --directory "$root/src/dt"
[ -z "$with" ] || cp -r --parents "$with" "$root/src/dt"

# What is mounted is seen by that process alone, and gone when it ends.
unshare --mount --propagation private bash -euc '
    for folder in proc sys dev; do mount --rbind /$folder "$0/$folder"; done
    exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root bash -c "cd /src/dt && $1"
' "$root" "$*"
