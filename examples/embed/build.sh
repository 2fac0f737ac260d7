#!/bin/sh
# Builds embed in this folder, or in OUT, with what is installed below PREFIX:  build.sh PREFIX [OUT]
set -eu
prefix=$(cd "${1:?the prefix of cmake --install}" && pwd) here=$(dirname "$0")
${CC:-cc} -std=c17 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -I"$prefix/include" "$here/embed.c" -o "${2:-$here}/embed" \
    -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -ldtrt
