"""resnet: the training step of examples/resnet.dt at global batch 128 on two cores, beside PyTorch and JAX.

Theirs is bench/peers/resnet_step.py: PyTorch eager with channels last and first, compiled with channels last, and jax.jit; the median step, from call to
the loss being read, with batches ready in memory. Ours is `dtrun bench`, the median step with a batch ready in memory, two replicas. All run in turn; a
ratio is the median over these rounds of the time of the fastest other.

The last column says that it is the same training: the largest relative difference of a loss from ours over the first ten steps, from the same weights, on
the same images. There our program has neither shuffling nor augmentation and a constant rate, as the peers have.
"""
import json
import pathlib
import re
import statistics
import sys
import tempfile

import side_by_side as bench

STEPS = 10
N_COMPARED = 10  # as many as the peers' steps before the clock starts
EXAMPLE = bench.ROOT / "examples/resnet.dt"
PEERS = {"PyTorch, channels last": ("torch", "last"), "channels first": ("torch", "first"), "compiled, channels last": ("compile", "last"),
         "JAX": ("jax", "last")}


def ours(artifact):
    command = [bench.ROOT / "build/dtrun", "bench", artifact, "--step", "train", *bench.TWO_CORES, "--steps", STEPS, "--json"]
    return 1000 * json.loads(bench.run(command).output)["median"]


def theirs(peer, channels):
    """(milliseconds a step, the first losses)"""
    measured, _ = bench.peer("resnet_step.py", "--peer", peer, "--channels", channels, "--steps", STEPS, "--batch", bench.BATCH)
    return measured["step_ms"], measured["losses"]


def our_losses(folder):
    """Of the first steps from the peers' weights, on the images in the order of the files."""
    text, n = re.subn(r" \| shuffle\(60000\) \| map\(augment\)|(?<=rate   = )warmup.*", lambda found: "" if found[0][0] == " " else "1e-3", EXAMPLE.read_text())
    assert n == 2, f"{EXAMPLE} is another program now"
    (folder / "resnet.dt").write_text(text)
    bench.run([bench.ROOT / "build/dtc", "compile", folder / "resnet.dt", "-o", folder / "resnet.dtx"])
    bench.run([sys.executable, bench.ROOT / "bench/peers/resnet_step.py", "--weights", folder / "weights.safetensors"])
    _, finished = bench.train(folder / "resnet.dtx", *bench.TWO_CORES, "--init", folder / "weights.safetensors", "--allow-missing",
                              "--max-steps", N_COMPARED, "--log-every", 1)
    return [event["loss"] for event in map(json.loads, finished.output.splitlines()) if event["event"] == "step"]


def main():
    n = bench.n_pairs(__doc__)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        bench.run([bench.ROOT / "build/dtc", "compile", EXAMPLE, "-o", folder / "example.dtx"])
        bench.head(f"ResNet step, batch {bench.BATCH}, 2 cores, ms; {bench.counted(n, 'round')} of {STEPS} steps", "ours", *PEERS,
                   "times as fast as the fastest", "largest difference of losses")
        rounds = [(ours(folder / "example.dtx"), *(theirs(*peer) for peer in PEERS.values())) for _ in range(n)]
        mine = our_losses(folder)
    times = [(own, *(ms for ms, _ in others)) for own, *others in rounds]
    ratio = statistics.median(min(others) / own for own, *others in times)
    difference = max(abs(theirs / own - 1) for _, *others in rounds for _, losses in others for theirs, own in zip(losses, mine, strict=True))
    bench.row("as in the example", *(f"{statistics.median(way):.0f}" for way in zip(*times)), f"{ratio:.2f}", f"{difference:.1e}")


main()
