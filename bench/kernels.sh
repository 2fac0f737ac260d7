#!/usr/bin/env bash
# Generated matrix products and convolutions beside OpenBLAS and oneDNN, one core, at each instruction-set level of this machine.
#
#   bench/kernels.sh [WORD]      only those whose name contains WORD; under two minutes in all
#
# A library that is not installed (bench/peers/setup.sh installs both) has no figures.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -gt 1 ] || [ "${1-}" = --help ]; then
    sed -n '2,6s/^# *//p' "$0"
    exit $(($# > 1 ? 2 : 0))
fi

cmake --preset release >/dev/null
cmake --build build --target kernels >/dev/null
sed -n 's/^model name[^:]*: //p;T;q' /proc/cpuinfo
if grep -q avx512f /proc/cpuinfo; then levels="x86-64-v4 x86-64-v3"; else levels=x86-64-v3; fi
core=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
for level in $levels; do
    echo
    taskset -c "$core" build/bench/kernels "$level" "${1:-}"
done
