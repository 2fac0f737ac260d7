#!/usr/bin/env bash
# From a bare Debian machine to a trained network: installs, builds, compiles examples/fashion_cnn.dt, trains it on the 60,000 images of
# Fashion-MNIST on two replicas, and evaluates it.
#
#   scripts/quickstart.sh [EPOCHS]      5 by default
set -euo pipefail
case ${1-} in -*) sed -n '2,5p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."

epochs=${1:-5}
data=${DT_DATA:-/usr/share/datasets/fashion-mnist}
work=build/quickstart
devices=cpu:$(($(nproc) > 1 ? 2 : 1))

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
run() { say "$@"; "$@"; }

scripts/install.sh
say "cmake --preset release && cmake --build build --target dtc dtrun"
cmake --preset release >/dev/null
cmake --build build --target dtc dtrun

rm -rf "$work"
mkdir -p "$work"
run build/dtc summary examples/fashion_cnn.dt
run build/dtc compile examples/fashion_cnn.dt -o "$work/fashion.dtx"
run build/dtrun train "$work/fashion.dtx" --data "$data" --epochs "$epochs" --replicas 2 --devices "$devices" --checkpoint-dir "$work/checkpoints"
run build/dtrun evaluate "$work/fashion.dtx" --data "$data" --replicas 2 --devices "$devices" --checkpoint-dir "$work/checkpoints"
