"""shares: training over two processes of one core each that have a share of the parameters each, `dtrun train --shard-parameters`, beside what else trains
the same: a step of examples/gpt.dt of width 512 at global batch 16, and the peak memory of a process, there and with four times as many layers.

    all of it in each    `dtrun train` as it is: every process has all parameters and all of the optimizer's states
    --shard-optimizer    every process has all parameters, and a share of the optimizer's states
    PyTorch              bench/peers/sharded.py: FSDP2, `fully_shard` of each block, over Gloo

Ours are trainings from a file with the pipeline running: the mean step from the second on, which `dtrun train` reports; all three must report the same
loss. Memory is what the operating system counted for the larger of both processes in one training of a few steps. What FSDP2 computes is looked at before,
beside the same model without it.
"""
import json
import pathlib
import sys
import tempfile

import side_by_side as bench

sys.path.insert(0, str(bench.ROOT / "tests/golden"))
import transformers  # noqa: E402

WIDTH, BATCH, STEPS = 512, 8, 10
LAYERS = (4, 16)  # the first one is timed
FEW = 2  # steps, where memory is looked at
REPLICAS = 2
OURS = {"ours, --shard-parameters": ("--shard-parameters",), "all of it in each": (), "--shard-optimizer": ("--shard-optimizer",)}
THEIRS = "PyTorch's FSDP2 over Gloo"
MOST_OFF = 1e-3  # FSDP2's gradients and losses, by their size


def compiled(layers):
    artifact = bench.ROOT / f"build/bench_gpt_{WIDTH}_{layers}.dtx"
    bench.run([bench.ROOT / "build/dtc", "compile", bench.ROOT / "examples/gpt.dt", f"-Dwidth={WIDTH}", f"-Dlayers={layers}", "--batch", BATCH, "-o", artifact])
    return artifact


def write_text(folder):
    """More than the steps read: of what the peer trains on."""
    sizes = {**transformers.SIZES["gpt_full"], "batch": REPLICAS * BATCH, "steps": 2 * STEPS}
    for name in ("train.txt", "valid.txt"):
        (folder / name).write_bytes(transformers.batches_of(sizes)["text"].tobytes())


def ours(artifact, data, steps, flags):
    """(ms of a step, MiB, loss)"""
    finished = bench.run([*bench.TWO_PROCESSES, bench.ROOT / "build/dtrun", "train", artifact, "--data", data, "--log-format", "json",
                          "--replicas", REPLICAS, "--global-batch", REPLICAS * BATCH, "--devices", "cpu:1x1", "--max-steps", steps, *flags], bench.AS_ROOT)
    epoch = bench.events(finished)["epoch"]
    return 1000 * epoch["seconds_per_step"], finished.peak_mib, epoch["loss"]


def all_ours(artifact, data, steps):
    """{which of OURS: (ms of a step, MiB)}"""
    runs = {name: ours(artifact, data, steps, flags) for name, flags in OURS.items()}
    if len({loss for _, _, loss in runs.values()}) > 1:
        sys.exit(f"losses differ: {runs}")
    return {name: run[:2] for name, run in runs.items()}


def peer(layers, steps, *flags):
    return bench.peer("sharded.py", "--batch", REPLICAS * BATCH, "--width", WIDTH, "--layers", layers, "--steps", steps, *flags)


def theirs(layers, steps):
    """(ms of a step, MiB)"""
    line, finished = peer(layers, steps)
    return line["step_ms"], finished.peak_mib


def look_at_theirs():
    """By how much FSDP2's gradients are off, and losses."""
    line, _ = peer(LAYERS[0], STEPS, "--check")
    if not max(line["gradients"], line["losses"]) <= MOST_OFF:
        sys.exit(f"FSDP2 computes something else than the model without it: {json.dumps(line)}")
    return line["gradients"], line["losses"]


def main():
    n = bench.n_pairs(__doc__)
    gradients, losses = look_at_theirs()
    with tempfile.TemporaryDirectory() as name:
        data = pathlib.Path(name)
        write_text(data)
        artifacts = {layers: compiled(layers) for layers in LAYERS}
        runs = [{**all_ours(artifacts[LAYERS[0]], data, STEPS), THEIRS: theirs(LAYERS[0], STEPS)} for _ in range(n)]
        mine, *others = runs[0]
        bench.head(f"GPT step, width {WIDTH}, batch {REPLICAS * BATCH}, 2 processes of one core; {bench.counted(n)} of {STEPS} steps",
                   "ours, ms", "beside, ms", "times as fast")
        for which in others:
            our, beside, ratio = bench.medians([(run[mine][0], run[which][0]) for run in runs])
            bench.row(which, f"{our:.0f}", f"{beside:.0f}", f"{ratio:.2f}")
        print()
        bench.head("peak memory of a process, MiB", *(f"{layers} layers" for layers in LAYERS))
        memory = [{**all_ours(artifacts[layers], data, FEW), THEIRS: theirs(layers, FEW)} for layers in LAYERS]
        for which in (mine, *others):
            bench.row(which, *(f"{run[which][1]:.0f}" for run in memory))
    print(f"\nFSDP2 beside the same model without it: first gradients off by at most {gradients:.1e} of their length, losses of {STEPS} steps by {losses:.1e}")


main()
