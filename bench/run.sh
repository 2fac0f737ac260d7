#!/usr/bin/env bash
# Prints our speed beside TensorFlow's, both measured in this run, in turn, on the same two cores.
#
#   bench/run.sh [PAIRS]      3 by default; the first call installs the peers into bench/peers/.venv (bench/peers/setup.sh)
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset release >/dev/null
cmake --build build --target dtc dtrun >/dev/null
bench/peers/setup.sh >/dev/null
build/dtc compile examples/fashion_cnn.dt -o build/bench_fashion.dtx
exec bench/peers/.venv/bin/python bench/cnn_step.py --pairs "${1:-3}" build/bench_fashion.dtx
