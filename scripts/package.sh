#!/usr/bin/env bash
# What other machines install: packages for Debian 12 and later (dt-runtime, dt-compiler, dt-dev, python3-dt), and the
# portable archive of scripts/portable.sh for other systems.
#
#   scripts/package.sh [FOLDER]      writes them into FOLDER, build/packages by default, and prints their paths and sizes
set -euo pipefail
case ${1-} in -*) sed -n '2,5p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."

folder=${1:-build/packages}
version=$(sed -n 's/^#define DT_VERSION "\(.*\)"$/\1/p' abi/version.h)

scripts/install.sh dpkg-dev help2man
cmake --preset release >/dev/null
cmake --build build >/dev/null
rm -rf build/packages
mkdir -p "$folder"
cpack --config build/CPackConfig.cmake >build/packages.log || { tail -n 20 build/packages.log >&2 && exit 1; }
[ "$folder" -ef build/packages ] || mv build/packages/*.deb "$folder"

# The wheel's files where Debian's Python looks for modules.
python_package() {
    local root=build/packages/python3-dt wheel
    scripts/wheel.sh build/packages >/dev/null
    wheel=$(echo build/packages/dt-"$version"-*.whl)
    mkdir -p $root/usr/lib/python3/dist-packages $root/DEBIAN
    python3 -m zipfile -e "$wheel" $root/usr/lib/python3/dist-packages
    printf '%s\n' "Package: python3-dt" "Version: $version" "Architecture: amd64" "Maintainer: The maintainers of dt <maintainers@localhost>" \
        "Section: python" "Priority: optional" "Depends: python3 (>= 3.11), python3-numpy, libc6 (>= 2.36)" \
        "Description: dt for Python: compile, train and run neural networks" >$root/DEBIAN/control
    dpkg-deb --root-owner-group --build $root "$folder/python3-dt_${version}_amd64.deb" >/dev/null
    rm -rf $root "$wheel"
}
python_package

scripts/portable.sh "$folder" >/dev/null
for file in "$folder"/*.deb "$folder"/dt-"$version"-*.tar.xz; do echo "$file: $(($(stat -c %s "$file") / 1000)) kB"; done
