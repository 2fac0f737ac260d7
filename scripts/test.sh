#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests; ends with CTest's summary.
#
#   scripts/test.sh           everything but the tests labelled `full`
#   scripts/test.sh --full    … those too, then all others again under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer, with
#                             all of the emulation of GPUs, and the fuzzers for 30 seconds each where clang is
set -euo pipefail
cd "$(dirname "$0")/.."

full=no
case "${1-}" in
    "") ;;
    --full) full=yes ;;
    *) sed -n '2,6p' "$0"; exit 2 ;;
esac

scripts/install.sh

# The tests compare with NumPy and read checkpoints with safetensors: both from PyPI, in an environment of the project's own.
python=$PWD/.venv/bin/python
if ! "$python" -c 'import numpy, safetensors' 2>/dev/null; then
    rm -rf .venv
    python3 -m venv .venv
    "$python" -m pip install --quiet --disable-pip-version-check numpy safetensors
fi

# NVRTC compiles what is generated for GPUs: the system's, a toolkit's, or else PyPI's. Without any its tests say that they are skipped.
if [ -z "${DT_NVRTC-}" ] && ! ldconfig -p | grep -q 'libnvrtc\.so\.1[23]' && ! ls /usr/local/cuda/lib64/libnvrtc.so.1[23] >/dev/null 2>&1; then
    "$python" -m pip install --quiet --disable-pip-version-check nvidia-cuda-nvrtc || echo "no NVRTC: code for GPUs is not compiled"
    DT_NVRTC=$(find "$PWD/.venv" -name 'libnvrtc.so.1[23]' | head -1)
    [ -z "$DT_NVRTC" ] || export DT_NVRTC
fi

# check PRESET ctest-arguments...
check() {
    local preset=$1 folder
    shift
    folder=build-$preset
    [ "$preset" != release ] || folder=build
    cmake --preset "$preset" -DDT_PYTHON="$python" >/dev/null
    cmake --build "$folder"
    ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" "$@"
}

if [ $full = no ]; then
    check release -LE full
    exit
fi

failed=()
for preset in asan ubsan tsan; do
    check $preset -LE full || failed+=($preset)
    ctest --test-dir build-$preset --output-on-failure -j "$(nproc)" -R '^ops\.cuda_.*full$' || failed+=("$preset, all of CUDA by emulation")
done
if command -v clang >/dev/null; then
    check fuzz -j 1 || failed+=(fuzz)
else
    echo "no clang: fuzzers skipped"
fi
[ ${#failed[@]} -eq 0 ] || printf 'FAILED: %s\n' "${failed[@]}"
check release
[ ${#failed[@]} -eq 0 ]
