"""What the tables have in common: running dtrun and the peers, in turn, and medians of pairs.

Machines drift, and other work comes and goes: the two of a pair run one right after the other, a figure is the median over pairs, and a
ratio is the median of the pairs' ratios, not the ratio of the medians.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
CNN = ROOT / "build/bench_fashion.dtx"
PERCEPTRON = ROOT / "build/bench_perceptron.dtx"
ODD = ROOT / "build/bench_odd_channels.dtx"
DATA = os.environ.get("DT_DATA", "/usr/share/datasets/fashion-mnist")
BATCH = 128  # of the CNN: two replicas of 64
TWO_CORES = ("--replicas", "2", "--devices", "cpu:2")
TWO_PROCESSES = (shutil.which("mpirun.openmpi") or "mpirun", "-n", 2, "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def levels():
    """The instruction sets of this machine that code is generated for, the best first."""
    return ["x86-64-v4", "x86-64-v3"] if "avx512f" in open("/proc/cpuinfo").read() else ["x86-64-v3"]


class Finished(typing.NamedTuple):
    output: str
    seconds: float  # from before its start to after its end
    peak_mib: float  # of resident memory, by wait4
    processor_seconds: float  # by wait4: of it and of those that it waited for


def run(command, environment=None):
    """Runs a command that must succeed."""
    with tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=errors, text=True,
                                   env=dict(os.environ, **(environment or {})))
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(f"{' '.join(process.args)}: exit status {process.returncode}\n{errors.read()}")
    return Finished(output, seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)


def events(finished):
    """What dtrun said with --log-format json, by name: of several of a name the first."""
    found = {}
    for event in map(json.loads, finished.output.splitlines()):
        found.setdefault(event["event"], event)
    return found


def train(artifact, *options, data=DATA):
    """dtrun train: (its events, Finished)."""
    finished = run([ROOT / "build/dtrun", "train", artifact, "--data", data, "--log-format", "json", *options])
    return events(finished), finished


def peer(script, *options, data=DATA, environment=None):
    """A script of bench/peers: (the object that it prints, Finished)."""
    finished = run([sys.executable, ROOT / "bench/peers" / script, "--data", data, *options], environment)
    return json.loads(finished.output.splitlines()[-1]), finished


def medians(both):
    """Of [(ours, theirs)]: the median of ours, of theirs, and of theirs / ours."""
    return tuple(map(statistics.median, (*zip(*both), [theirs / ours for ours, theirs in both])))


def pairs(n, ours, theirs):
    """The medians of n times ours(), then theirs(). Both return a number."""
    return medians([(ours(), theirs()) for _ in range(n)])


def counted(n, thing="pair"):
    return f"{n:,} {thing}" + ("s" if n != 1 else "")


def n_pairs(description):
    """--pairs of a table's command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    return parser.parse_args().pairs


def row(*cells):
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def head(*titles):
    row(*titles)
    print("|---" * len(titles) + "|", flush=True)
