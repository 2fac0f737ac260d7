#!/usr/bin/env bash
# Makes docs/report.png: the page of two runs, as headless Chromium (Debian's `chromium`) shows it. After a build; takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${DT_DATA:-/usr/share/datasets/fashion-mnist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build/dtc compile examples/fashion_cnn.dt -o "$work/cnn.dtx"
for replicas in 1 4; do
    build/dtrun train "$work/cnn.dtx" --data "$data" --epochs 3 --replicas $replicas --log-every $((40 / replicas)) --log-dir "$work/replicas-$replicas"
done
build/dtrun report "$work/replicas-1" "$work/replicas-4" -o "$work/report.html"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,1130 --blink-settings=preferredColorScheme=1 \
    --screenshot="$PWD/docs/report.png" "file://$work/report.html" 2>/dev/null
ls -l docs/report.png
