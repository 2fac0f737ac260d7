#!/usr/bin/env bash
# Runs one fuzzer: run.sh BUILD TARGET SECONDS. It starts from the inputs of tests/fuzz/TARGET and from those that it has found before, which are kept in
# BUILD. Prints a line: how many inputs it ran, and how many edges of the code they reach; of a finding the sanitizer's report too, and the
# input's file. What the code prints is not wanted, and memory that there is not is an error that the code has to expect.
set -uo pipefail
build=$(cd "$1" && pwd) target=$2 seconds=$3
corpus=$(cd "$(dirname "$0")" && pwd)/$target
work=$build/tests/fuzz
mkdir -p "$work/${target}_found"
ASAN_OPTIONS=allocator_may_return_null=1 "$build/fuzz_$target" -max_total_time="$seconds" -timeout=10 -malloc_limit_mb=0 -close_fd_mask=3 \
    -print_final_stats=1 -artifact_prefix="$work/$target-" "$work/${target}_found" "$corpus" >"$work/$target.log" 2>&1
code=$?
executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$target.log")
edges=$(grep -ao ' cov: [0-9]*' "$work/$target.log" | tail -n 1 | tr -dc 0-9)
if [ $code -eq 0 ]; then
    printf '%-16s %9d executions, %6d edges\n' "$target" "${executions:-0}" "${edges:-0}"
else
    input=$(sed -n 's/.*Test unit written to //p' "$work/$target.log" | tail -n 1)
    grep -av '^#[0-9]' "$work/$target.log" | tail -n 60
    printf '%-16s %9d executions: FINDING, exit status %d: %s %s\n' "$target" "${executions:-0}" $code "$build/fuzz_$target" "${input:-(no input)}"
fi
exit $code
