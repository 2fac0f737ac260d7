#!/usr/bin/env bash
# What there is to see on a machine with an NVIDIA GPU: from a checkout that was built, or from the folder that scripts/portable.sh packs, which needs
# nothing but Python 3 there. Leaves tables (Markdown), all numbers (JSON) and logs in FOLDER. Each takes eight minutes at most; what did not fit is named.
#
#   bench/gpu.sh tests FOLDER         what only a GPU can show: every op, programs beside the CPU, equal bits       bench/gpu/tests.py
#   bench/gpu.sh bench FOLDER         speed beside PyTorch, JAX, cuBLASLt and copying, where these are installed    bench/gpu/bench.py
#   bench/gpu.sh sanitize FOLDER      compute-sanitizer over short runs                                             bench/gpu/sanitize.py
#
# DT_DATA: the folder of Fashion-MNIST's four files, as they come (by default data/ here, or Debian's). PEER_PYTHON: the Python that has the other
# frameworks (by default python3).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

if [ $# != 2 ] || [ ! -f "$root/bench/gpu/$1.py" ]; then
    sed -n '5,11s/^# *//p' "$0" >&2
    exit 2
fi
if [ -x "$root/bin/dtrun" ]; then
    programs=$root/bin
    export DT_GPU_OPS=$programs/gpu_ops DT_GPU_NCCL=$programs/gpu_nccl DT_GPU_KERNELS=$programs/gpu_kernels DT_GPU_CUBLASLT=$programs/gpu_cublaslt
else
    programs=${DT_BUILD:-$root/build}
    export DT_GPU_OPS=$programs/tests/gpu/ops DT_GPU_NCCL=$programs/tests/gpu/nccl DT_GPU_KERNELS=$programs/bench/gpu_kernels DT_GPU_CUBLASLT=$programs/bench/gpu_cublaslt
fi
for program in "$programs/dtc" "$programs/dtrun" "$DT_GPU_OPS" "$DT_GPU_NCCL" "$DT_GPU_KERNELS" "$DT_GPU_CUBLASLT"; do
    [ -x "$program" ] || { echo "bench/gpu.sh: there is no $program: build first, or unpack what scripts/portable.sh makes" >&2 && exit 1; }
done
if ! "$programs/dtrun" devices | grep -q '^GPU 0: '; then
    echo "bench/gpu.sh: there is no GPU here: \`dtrun devices\` lists what there is" >&2
    exit 1
fi
if [ -z "${DT_DATA-}" ]; then
    DT_DATA=$root/data
    [ -d "$DT_DATA" ] || DT_DATA=/usr/share/datasets/fashion-mnist
fi
mkdir -p "$2"
export DT_DATA DT_SOURCE=$root PATH=$programs:$PATH PYTHONDONTWRITEBYTECODE=1
exec python3 "$root/bench/gpu/$1.py" "$2"
