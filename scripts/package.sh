#!/usr/bin/env bash
# What other machines install: packages for Debian 12 and later (debian/), and the portable archive of scripts/portable.sh for other systems.
#
#   scripts/package.sh [FOLDER]      writes them into FOLDER, build/packages by default, and prints their paths and sizes
set -euo pipefail
case ${1-} in -*) sed -n '2,4p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."

folder=${1:-build/packages}
version=$(sed -n 's/^#define DT_VERSION "\(.*\)"$/\1/p' abi/version.h)

scripts/install.sh debhelper dh-python help2man python3-dev libopenmpi-dev libmpich-dev
rm -rf build/packages debian/.debhelper debian/tmp debian/*.debhelper.log debian/debhelper-build-stamp
mkdir -p "$folder" build/debian
# dpkg-buildpackage would do the same, and write beside the sources.
PATH=/usr/bin:/bin DT_PACKAGES=$(realpath "$folder") dpkg-architecture --command "debian/rules binary" >build/debian/packages.log 2>&1 || { tail -n 20 build/debian/packages.log >&2 && exit 1; }

scripts/portable.sh "$folder" >/dev/null
for file in "$folder"/*.deb "$folder"/dt-"$version"-*.tar.xz; do echo "$file: $(($(stat -c %s "$file") / 1000)) kB"; done
