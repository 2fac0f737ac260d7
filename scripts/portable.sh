#!/usr/bin/env bash
# One archive with all that another machine needs: dtc and dtrun, the examples, the tests and benchmarks for GPUs. It runs from any folder of an
# x86-64 Linux with the C library of Debian 12 (glibc 2.36) or a later one, and asks for nothing else: LLVM, zlib, minizip, libpng, libjpeg, protobuf-c, utf8proc and zstd are within the
# programs, cJSON, nettle and cmocka beside them in lib/. Drivers and libraries of GPUs' vendors are found there (base/shared_library.h).
#
#   scripts/portable.sh [FOLDER]      writes dt-VERSION-x86_64-linux.tar.xz into FOLDER, build-portable by default, and prints its path and size
set -euo pipefail
case ${1-} in -*) sed -n '2,6p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."

folder=${1:-build-portable}
build=build-portable
version=$(sed -n 's/^#define DT_VERSION "\(.*\)"$/\1/p' abi/version.h)
name=dt-$version-x86_64-linux
most_bytes=25000000

scripts/install.sh libzstd-dev xz-utils binutils
cmake --preset portable >/dev/null
cmake --build $build --target dtc dtrun gpu_ops gpu_nccl gpu_kernels gpu_cublaslt >/dev/null

rm -rf "$build/$name"
mkdir -p "$build/$name"/{bin,lib,licenses,bench/peers,tests/gpu,tests/support} "$folder"
strip -o "$build/$name/bin/dtc" $build/dtc
strip -o "$build/$name/bin/dtrun" $build/dtrun
strip -o "$build/$name/bin/gpu_ops" $build/tests/gpu/ops
strip -o "$build/$name/bin/gpu_nccl" $build/tests/gpu/nccl
strip -o "$build/$name/bin/gpu_kernels" $build/bench/gpu_kernels
strip -o "$build/$name/bin/gpu_cublaslt" $build/bench/gpu_cublaslt
for plugin in $build/libdt_mpi_*.so; do # one for each MPI whose header this machine has
    [ ! -e "$plugin" ] || strip -o "$build/$name/lib/${plugin##*/}" "$plugin"
done

# What they load from lib/, under the name by which they ask for it; and the licence of each package that is within or beside them.
needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
path_of() { ldd $build/dtc $build/tests/gpu/ops | sed -n "s/^\t$1 => \([^ ]*\) .*/\1/p" | head -1; }
for library in $(for program in "$build/$name"/bin/*; do needed "$program"; done | sort -u); do
    case $library in
    libc.so.* | libm.so.* | ld-linux-x86-64.so.*) ;;
    libcjson.so.* | libnettle.so.* | libcmocka.so.*) cp -L "$(path_of "$library")" "$build/$name/lib/$library" ;;
    *) echo "portable.sh: $library would be needed on the other machine" >&2 && exit 1 ;;
    esac
done
for package in llvm-19-dev libcjson1 libcmocka0 libminizip-dev libjpeg62-turbo-dev libnettle8 libpng-dev libprotobuf-c-dev libutf8proc-dev libzstd-dev zlib1g-dev libstdc++-12-dev; do
    [ ! -f "/usr/share/doc/$package/copyright" ] || cp -L "/usr/share/doc/$package/copyright" "$build/$name/licenses/$package"
done
cp LICENSE README.md "$build/$name"
cp -r examples docs include "$build/$name" # the headers are what README.md and docs/c-api.md speak of
cp -r bench/gpu bench/gpu.sh "$build/$name/bench"
cp bench/peers/gpu_*.py bench/peers/harness.py "$build/$name/bench/peers"
cp tests/gpu/*.py "$build/$name/tests/gpu"
cp tests/support/{gpu,timeline,training}.py "$build/$name/tests/support"

archive=$folder/$name.tar.xz
tar -C $build --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -c "$name" | xz -T0 -6 >"$archive"
bytes=$(stat -c %s "$archive")
glibc=$(objdump -T "$build/$name"/bin/* "$build/$name"/lib/* | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
echo "$archive: $((bytes / 1000)) kB, needs glibc ${glibc#GLIBC_}"
[ "$bytes" -lt $most_bytes ] || { echo "portable.sh: more than $((most_bytes / 1000000)) MB" >&2 && exit 1; }
