"""compile: what it costs to compile examples/fashion_cnn.dt, gpt.dt, bert_mlm.dt and resnet.dt, and gpt.dt of more layers, beside PyTorch and XLA: seconds
on the clock and of processor time on two cores. Other work on the machine disturbs the latter least: ratios are of it.

Ours is `dtc compile`, the whole process and all steps of the program: for the instruction sets of this machine alone (--cpu native), as the peers compile,
and for all. Theirs is what the first training step takes longer than later ones do, with the same network, batch and optimizer: torch.compile (Inductor),
which compiles forward and backward, not the update, in an empty folder for what it keeps; and jax.jit. Imports, weights and a first small function are
done before. Of the peers the GPT of 48 layers is not measured: it would take minutes.
"""
import pathlib
import statistics
import tempfile
import typing

import side_by_side as bench

STEPS = 5  # later ones


class Case(typing.NamedTuple):
    title: str
    program: tuple  # of examples/, and what is defined
    peer: tuple  # the script of bench/peers and its options; () if they are not measured


def gpt(layers, is_measured=True):
    peer = ("transformer_step.py", "--model", "gpt", "--layers", layers, "--batch", 32) if is_measured else ()
    return Case(f"GPT 32 x 128, {layers} layers", ("gpt", "-D", f"layers={layers}"), peer)


CASES = (
    Case("CNN, batch 128", ("fashion_cnn",), ("cnn_step.py",)),
    gpt(4),
    gpt(12),
    gpt(48, is_measured=False),
    Case("BERT 8 x 512", ("bert_mlm",), ("transformer_step.py", "--model", "bert", "--batch", 8)),
    Case("ResNet, batch 128", ("resnet",), ("resnet_step.py",)),
)


def ours(case, folder, *options):
    """(seconds, seconds of processor time)"""
    name, *defines = case.program
    finished = bench.run([bench.ROOT / "build/dtc", "compile", bench.ROOT / f"examples/{name}.dt", *defines, *options, "-o", folder / "out.dtx"])
    return finished.seconds, finished.processor_seconds


def theirs(case, peer):
    if not case.peer:
        return None
    with tempfile.TemporaryDirectory() as cache:
        measured, _ = bench.peer(*case.peer, "--peer", peer, "--steps", STEPS, environment={"TORCHINDUCTOR_CACHE_DIR": cache})
    return measured["compile_seconds"], measured["compile_processor_seconds"]


def measure(case, folder):
    return ours(case, folder, "--cpu", "native"), ours(case, folder), theirs(case, "compile"), theirs(case, "jax")


def main():
    n = bench.n_pairs(__doc__)
    ways = ("dtc", "for all levels", "PyTorch", "XLA")
    bench.head(f"compiling, 2 cores; {bench.counted(n, 'round')}", *(title for way in ways for title in (f"{way}, s", "processor, s")),
               "times the processor time of dtc, at least")
    with tempfile.TemporaryDirectory() as name:
        for case in CASES:
            rounds = [measure(case, pathlib.Path(name)) for _ in range(n)]
            cells = [f"{statistics.median(found[clock] for found in way):.2f}" if way[0] else "—" for way in zip(*rounds) for clock in (0, 1)]
            ratios = [min(torch[1], xla[1]) / own[1] for own, _, torch, xla in rounds if torch]
            bench.row(case.title, *cells, f"{statistics.median(ratios):.1f}" if ratios else "—")


main()
