"""The training step of examples/fashion_cnn.dt at global batch 128 on two cores: dtrun and TensorFlow's graph mode, in turn.

Ours is what `dtrun train` reports for real data with its pipeline running (examples a second from the second step on); TensorFlow's is
bench/peers/cnn_step.py, whose batches are ready in memory. Machines drift: a figure is the median over pairs, a ratio the median of the pairs' ratios.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH = 128


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "an unknown processor"


def ours(artifact, data, steps, level):
    command = [ROOT / "build/dtrun", "train", artifact, "--data", data, "--replicas", "2", "--devices", "cpu:2", "--max-steps", str(steps),
               "--log-format", "json"]
    if level:
        command += ["--cpu", level]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    epoch = next(event for event in map(json.loads, lines) if event["event"] == "epoch" and event["step"] == "train")
    return 1000 * BATCH / epoch["examples_per_second"]


def tensorflow(data, steps, level):
    environment = dict(os.environ, ONEDNN_MAX_CPU_ISA="AVX2") if level == "x86-64-v3" else None
    command = [sys.executable, ROOT / "bench/peers/cnn_step.py", "--peer", "tensorflow", "--batch", str(BATCH), "--threads", "2", "--steps",
               str(steps), "--data", data]
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return json.loads(output.splitlines()[-1])["step_ms"]


def measure(name, arguments, level):
    pairs = []
    for _ in range(arguments.pairs):
        pairs.append((ours(arguments.artifact, arguments.data, arguments.steps, level), tensorflow(arguments.data, arguments.steps, level)))
    mine, theirs = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    ratio = statistics.median(pair[1] / pair[0] for pair in pairs)
    print(f"| {name} | {mine:.1f} | {theirs:.1f} | {ratio:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact")
    parser.add_argument("--data", default=os.environ.get("DT_DATA", "/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    print(f"{processor()}, 2 cores, global batch {BATCH}, {arguments.pairs} pairs of {arguments.steps} steps\n")
    print("| CNN training step | ours, ms | TensorFlow, ms | times as fast |\n|---|---|---|---|")
    flags = open("/proc/cpuinfo").read()
    if "avx512f" in flags:
        measure("AVX-512", arguments, "x86-64-v4")
    measure("AVX2", arguments, "x86-64-v3")


main()
