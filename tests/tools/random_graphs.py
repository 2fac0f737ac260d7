"""random_graphs: random programs, compiled and run, beside the interpreter and, if asked, beside JAX.

    python3 tests/tools/random_graphs.py [--first 1] [--count 300] [--jax] [--cuda] [--jobs 2] [--every-op] [--show]

Each seed is a graph (tests/support/random_programs.py); twenty of them are a program, which is compiled once and run three times: one replica with a full
batch, and two and three of which the last has a short one. Results, gradients and trained parameters are compared with those of tests/tools/interpret.c, and of
the full batch with JAX's (tests/support/jax_reference.py): exact values to the bit, others within what roundings explain. Several replicas give the same
bits on one core and on a core each. With `--cuda` each program is compiled for a GPU as well, and run by emulation (tests/support/fake_cuda.h), on one and three
replicas.

A difference prints the seed, the lines of the program that it needs, and both values; `--first SEED --count 1` runs that graph again, `--show` prints its
program. `--every-op` fails where an op of the table was not drawn.

Needs dtc in PATH and DT_TOOLS, as every test; with --jax a Python that has jax, with --cuda c++ and NVRTC."""

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import pathlib
import re
import sys
import traceback

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(SOURCE / "tests/support"), str(SOURCE / "tests/tools")]
os.environ.setdefault("DT_SOURCE", str(SOURCE))
os.environ.setdefault("DT_TOOLS", str(SOURCE / "build/tests/tools"))

import emulated_kernels  # noqa: E402
import numpy as np  # noqa: E402
import programs  # noqa: E402
import random_sequences  # noqa: E402, F401: more forms
from random_programs import FLOATS, N_PER_PROGRAM, PRECISION, ROWS, Graph, draw_inputs, program_text  # noqa: E402

REPLICAS = (1, 2, 3)
PROGRAMS_A_PROCESS = 40
UNITS = 2.0**12  # of the last place, of the largest element: how far compiled code may be from the interpreter where no reference says how far


def initial_parameters(graphs, seed):
    source = np.random.default_rng(seed)
    return {f"variable/M{graph.seed}/{value.name}": (source.integers(-8, 9, value.shape) / 4).astype(np.float64 if value.dtype == "f64" else np.float32)
            for graph in graphs for value in graph.parameters.values()}  # fmt: skip


def shape_of(key, array, value):
    """What has no rows has an entry for each step, of which there was one; a variable has none, unless it is a scalar."""
    return array if value.has_rows or (key.startswith("variable/") and value.shape) else array[0]


def away(value, got, want, room):
    """The first element that differs by more than it may, or None."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"has shape {got.shape}, should have {want.shape}"
    if not value.is_float:
        wrong = got != want
    else:
        with np.errstate(all="ignore"):
            g, w = got.astype(np.float64), want.astype(np.float64)
            wrong = ~((g == w) | (np.isnan(g) & np.isnan(w)))
            if room is not None:
                wrong &= ~(np.abs(g - w) <= room)
            elif value.sign_of_zero and value.quantum is None:
                wrong |= (g == 0) & (w == 0) & (np.signbit(g) != np.signbit(w))
    if not wrong.any():
        return None
    at = tuple(map(int, np.unravel_index(np.argmax(wrong), wrong.shape)))
    allowed = "" if room is None else f", {float(np.broadcast_to(room, want.shape)[at]):.3g} apart is allowed"
    return f"{list(at)} is {got[at]!r}, should be {want[at]!r}{allowed}"


def by_rounding(graph, value, want):
    """How far compiled code may be from the interpreter; None: not at all."""
    if not value.is_float or value.exact or graph.kind == "edges":
        return None
    finite = np.abs(want[np.isfinite(want)]) if want.size else np.zeros(1)
    return UNITS * max(value.eps, 2.0 ** -PRECISION[value.dtype]) * (1 + float(np.max(finite, initial=0)))


def report(graph, key, value, beside, rows, wrong):
    name = key.split("/")[-1]
    line = f"  {value.name} = {value.line}" if value.line else ""
    return f"DIFFERENCE seed {graph.seed}, {rows} rows, beside {beside}: {name} {wrong}{line}\n{graph.text(only=key)}"


def compare_with_interpreter(graphs, got, want, rows, on="the interpreter"):
    for graph in graphs:
        for key, value in graph.compared().items():
            g, w = (shape_of(key, run[key], value) for run in (got, want))
            wrong = away(value, g, w, by_rounding(graph, value, w))
            if wrong:
                yield report(graph, key, value, on, rows, wrong)


def compare_layouts(graphs, got, other, rows):
    for graph in graphs:
        for key, value in graph.compared().items():
            if got[key].tobytes() != other[key].tobytes():
                yield report(graph, key, value, "the same replicas on several cores", rows, "has other bits")


def compare_with_jax(graphs, got, given):
    import jax_reference

    for graph in graphs:
        for key, (want, room) in jax_reference.evaluate(graph, given).items():
            value = graph.compared()[key]
            wrong = away(value, shape_of(key, got[key], value), want, room)
            if wrong:
                yield report(graph, key, value, "JAX", ROWS, wrong)


def run_program(seeds, with_jax, with_cuda):
    """Differences, and counts of what was compared."""
    with programs.own_folder():
        differences, counts, failed = run_graphs(seeds, with_jax, with_cuda)
    if failed and len(seeds) > 1:  # which one is it?
        differences += [found for seed in seeds for found in run_program([seed], with_jax, with_cuda)[0]]
    return differences, counts


def emulate(program):
    """The program compiled for a GPU, and the environment in which there is one."""
    artifact = programs.compile(program, batch=ROWS, target="cuda:sm_90")
    folder = pathlib.Path(os.environ["DT_TOOLS"]).parent
    kernels = emulated_kernels.compile_artifact(artifact, programs.scratch(".so"))
    return artifact, {"DT_CUDA_DRIVER": str(folder / "libfake_cuda.so"), "FAKE_CUDA_KERNELS": kernels, "DT_CUBLASLT": str(folder / "libfake_cublaslt.so"),
                      "DT_CUDNN": str(folder / "libfake_cudnn.so")}  # fmt: skip


def run_graphs(seeds, with_jax, with_cuda):
    graphs = [Graph(seed) for seed in seeds]
    program = programs.write(program_text(graphs))
    counts = collections.Counter(graphs=len(graphs), values=sum(len(graph.values) for graph in graphs))
    differences = []
    steps = ",".join(f"g{graph.seed}" for graph in graphs)
    try:
        artifact = programs.compile(program, batch=ROWS, cpu="native")
        emulated = emulate(program) if with_cuda else None
        initial = initial_parameters(graphs, seeds[0])
        for replicas in REPLICAS:
            rows = replicas * ROWS - (replicas > 1)
            given = {**draw_inputs(seeds[0] + rows, rows), **initial}
            how = {"rows": replicas * ROWS, "replicas": replicas}
            want = programs.interpret(program, steps, given, rows=replicas * ROWS)
            got = programs.execute(artifact, steps, given, **how, devices="cpu:1")
            differences += compare_with_interpreter(graphs, got, want, rows)
            if replicas > 1:
                differences += compare_layouts(graphs, got, programs.execute(artifact, steps, given, **how, devices=f"cpu:{replicas}x1"), rows)
            if with_jax and replicas == 1:
                differences += compare_with_jax(graphs, got, given)
            if emulated and replicas != 2:
                got = programs.execute(emulated[0], steps, given, **how, devices="cuda:0", environment=emulated[1])
                differences += compare_with_interpreter(graphs, got, want, rows, "the interpreter, on a GPU by emulation")
    except Exception:
        return [f"FAILED seeds {seeds[0]} to {seeds[-1]}: {traceback.format_exc()}"], counts, True
    return differences, counts, False


def ops_not_drawn(parts):
    """Ops of the table that no graph has; but arguments, and what autodiff and partition insert, which no program can."""
    missing, kind = set(), None
    for line in programs.run(["dtc", "ops"]).splitlines():
        kind = line if line.isupper() else kind
        if (op := re.match(r"(\w+)\(", line)) and op[1] not in ("input", "accumulate") and kind != "COLLECTIVE":
            missing.add(op[1])
    for seeds in parts:
        text = programs.run(["dtc", "compile", "--emit=ir", programs.write(program_text([Graph(seed) for seed in seeds]))])
        missing -= set(re.findall(r"^  (?:%\d+: \S.* = )?(\w+)\(", text, re.MULTILINE))
    return sorted(missing)


def run_programs(parts, options):
    """What run_program finds in each. JAX keeps what it compiles, and mappings run out, so processes are replaced: all together, for an executor with
    max_tasks_per_child may wait for ever."""
    n_at_a_time = PROGRAMS_A_PROCESS * options.jobs
    for first in range(0, len(parts), n_at_a_time):
        some = parts[first : first + n_at_a_time]
        with concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
            yield from pool.map(run_program, some, [options.jax] * len(some), [options.cuda] * len(some))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--jax", action="store_true", help="compare with JAX as well")
    parser.add_argument("--cuda", action="store_true", help="run the kernels for GPUs as well, by emulation")
    parser.add_argument("--every-op", action="store_true", help="fail where an op was not drawn")
    parser.add_argument("--show", action="store_true", help="print the programs")
    options = parser.parse_args()
    seeds = list(range(options.first, options.first + options.count))
    parts = [seeds[i : i + N_PER_PROGRAM] for i in range(0, len(seeds), N_PER_PROGRAM)]
    if options.show:
        print(program_text([Graph(seed) for seed in seeds]))
    counts, n_differences = collections.Counter(), 0
    for found, compared in run_programs(parts, options):
        counts += compared
        n_differences += len(found)
        for difference in found:
            print(difference, flush=True)
        if counts["graphs"] % 1000 < N_PER_PROGRAM:
            print(f"{counts['graphs']} graphs, {n_differences} differences", file=sys.stderr, flush=True)
    print(f"{counts['graphs']} graphs of {counts['values']} values, {n_differences} differences; seeds {seeds[0]} to {seeds[-1]}"
          f"{'' if options.jax else '; beside the interpreter only'}")  # fmt: skip
    missing = ops_not_drawn(parts) if options.every_op else []
    if missing:
        print(f"not drawn: {', '.join(missing)}")
    return 1 if n_differences or missing or not seeds else 0


if __name__ == "__main__":
    sys.exit(main())
