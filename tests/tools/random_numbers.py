"""random_numbers: random programs about numbers at their edges, pairs of rows and second gradients, compiled and run, beside NumPy.

    python3 tests/tools/random_numbers.py [--first 1] [--count 300] [--cpu native] [--cuda] [--jobs 2] [--show]

Each seed is a graph (tests/support/random_numbers.py), twenty of them are a program. It runs

    - on one, two and three replicas, whose last one may have a short batch
    - compiled with two random sets of `-O no-…`, on a number of replicas that is drawn
    - with its rows permuted: what goes by rows is permuted, and all else is as it was
    - with each row twice: means, gradients of means and rates are as they were

and each element of each result is what NumPy says: one value where the language defines it, and otherwise within what roundings may come to
(tests/support/number_reference.py). Sets that hold only what no bit depends on give the bits of the plain compilation.

A difference prints the seed, the lines that it needs, and both values; `--first SEED --count 1` runs that graph again, with the same numbers."""

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import pathlib
import random
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
from number_reference import Number, differs  # noqa: E402
from random_numbers import FULL, N_PER_PROGRAM, SHORT, NumberGraph, program_text  # noqa: E402

NO_BITS = ("ahead", "epilogues", "library", "reuse", "rows")  # on a CPU no bit depends on these
REFUSED = ("as a batch statistic is: it would cross replicas in each of", "every replica would need all pairs of rows")  # which gradients may come to


def switches():
    """What `dtc compile -O` can switch off."""
    text = programs.run(["dtc", "compile", "--help"])
    return re.findall(r"^  no-(\w+)", text, re.MULTILINE)


def draw_sets(seed):
    """Two sets of what is switched off: one of any, one that may be of what no bit depends on."""
    source, every = random.Random(f"switches {seed}"), switches()
    for _ in range(2):
        some = NO_BITS if source.random() < 0.3 else every
        yield source.sample(some, min(len(some), source.choice((1, 2, 3, 6, 12))))


def arranged(number, rows, order):
    """The number with its rows in another order."""
    value, radius = number.given
    if value.ndim == 0 or rows is None or rows.shape[:1] != ("B",):
        return number
    return Number(number.dtype, value[order], radius[order])


def report(graph, key, number, got, wrong, where):
    at = tuple(map(int, np.unravel_index(np.argmax(wrong), wrong.shape))) if wrong.ndim else ()
    value, radius = number.given
    how = f"shape {got.shape}, should be {value.shape}" if got.shape != value.shape else (
        f"{list(at)} is {got[at]!r}, should be {number.value[at]!r} within {radius[at]:.3g}; {int(wrong.sum())} of {wrong.size}")  # fmt: skip
    return f"DIFFERENCE seed {graph.seed}, {graph.mood}, {where}: {key.split('/')[-1]} {how}\n{graph.text(only=key)}"


def compare(graphs, got, where, counts, order=None, doubled=False):
    for graph in graphs:
        for key, (number, value, row_wise, doubles, sign) in graph.compared().items():
            if (order is not None and not doubled and not row_wise) or (doubled and not doubles):
                continue
            has_rows = value is not None and value.shape[:1] == ("B",)
            array = got[key] if has_rows or (key.startswith("variable/") and got[key].shape == number.given[0].shape) else got[key][0]
            expected = number if order is None or not has_rows else arranged(number, value, order)
            wrong = differs(expected, array, sign and not doubled)
            counts["elements"] += wrong.size
            counts["known"] += int(np.isfinite(number.radius).sum())
            counts["exact"] += int((number.given[1] == 0).sum())
            if wrong.any():
                yield report(graph, key, expected, np.asarray(array), wrong, where)


def emulate(program):
    artifact = programs.compile(program, batch=FULL, target="cuda:sm_90")
    folder = pathlib.Path(os.environ["DT_TOOLS"]).parent
    kernels = emulated_kernels.compile_artifact(artifact, programs.scratch(".so"))
    return artifact, {"DT_CUDA_DRIVER": str(folder / "libfake_cuda.so"), "FAKE_CUDA_KERNELS": kernels, "DT_CUBLASLT": str(folder / "libfake_cublaslt.so"),
                      "DT_CUDNN": str(folder / "libfake_cudnn.so")}  # fmt: skip


def with_rows(given, order):
    return {key: array[order] if key.startswith("input/") else array for key, array in given.items()}


def is_refused(error):
    return any(sentence in str(error) for sentence in REFUSED)


def compiled(graphs, cpu, counts):
    """The program of those graphs that are not refused, its artifact, and these graphs."""
    program = programs.write(program_text(graphs))
    try:
        return program, programs.compile(program, batch=FULL, cpu=cpu), graphs
    except RuntimeError as error:
        if not is_refused(error):
            raise
    kept = []
    for graph in graphs:
        try:
            programs.compile(programs.write(program_text([graph])), batch=FULL, cpu=cpu)
            kept.append(graph)
        except RuntimeError as error:
            if not is_refused(error):
                raise
    counts["refused"] += len(graphs) - len(kept)
    program = programs.write(program_text(kept))
    return program, programs.compile(program, batch=FULL, cpu=cpu) if kept else None, kept


def run_graphs(seeds, cpu, with_cuda):
    source = random.Random(f"order {seeds[0]}")
    counts, differences = collections.Counter(graphs=len(seeds)), []
    try:
        graphs = [NumberGraph(seed, rows_of(seed)) for seed in seeds]
        rows = graphs[0].rows
        program, artifact, graphs = compiled(graphs, cpu, counts)
        if not graphs:
            return differences, counts, False
        counts["values"] = sum(len(graph.values) for graph in graphs)
        steps = ",".join(f"n{graph.seed}" for graph in graphs)
        given = {key: array for graph in graphs for key, array in graph.given().items()}
        plain = {}
        for replicas in (1, 2, 3):
            plain[replicas] = programs.execute(artifact, steps, given, rows=FULL, replicas=replicas, devices="cpu:1")
            differences += compare(graphs, plain[replicas], f"{replicas} replicas", counts)
        order = source.sample(range(rows), rows)
        got = programs.execute(artifact, steps, with_rows(given, order), rows=FULL, replicas=1, devices="cpu:1")
        differences += compare(graphs, got, f"rows {order}", counts, order)
        order = source.sample(list(range(rows)) * 2, 2 * rows)
        got = programs.execute(artifact, steps, with_rows(given, order), rows=2 * FULL, replicas=2, devices="cpu:1")
        differences += compare(graphs, got, "each row twice", counts, order, doubled=True)
        for off in draw_sets(seeds[0]):
            replicas, said = source.choice((1, 2, 3)), ",".join(f"no-{name}" for name in off)
            other = programs.compile(program, batch=FULL, cpu=cpu, optimize=said)
            got = programs.execute(other, steps, given, rows=FULL, replicas=replicas, devices="cpu:1")
            differences += compare(graphs, got, f"{replicas} replicas, -O {said}", counts)
            if set(off) <= set(NO_BITS):
                differences += [f"DIFFERENCE seeds {seeds[0]} to {seeds[-1]}, {replicas} replicas: {key} has other bits with -O {said}"
                                for key, array in plain[replicas].items() if array.tobytes() != got[key].tobytes()]  # fmt: skip
        if with_cuda:
            artifact, environment = emulate(program)
            for replicas in (1, 3):
                got = programs.execute(artifact, steps, given, rows=FULL, replicas=replicas, devices="cuda:0", environment=environment)
                differences += compare(graphs, got, f"{replicas} replicas, on a GPU by emulation", counts)
    except Exception:
        return [f"FAILED seeds {seeds[0]} to {seeds[-1]}: {traceback.format_exc()}"], counts, True
    return differences, counts, False


def rows_of(seed):
    """Of a program: a short batch in two of three."""
    return SHORT if random.Random(f"batch {(seed - 1) // N_PER_PROGRAM}").random() < 0.66 else FULL


def run_program(seeds, cpu, with_cuda):
    """Differences, and counts of what was compared."""
    with programs.own_folder():
        differences, counts, failed = run_graphs(seeds, cpu, with_cuda)
    if failed and len(seeds) > 1:  # which one is it?
        differences += [found for seed in seeds for found in run_program([seed], cpu, with_cuda)[0]]
    return differences, counts


def run_programs(parts, options):
    """What run_program finds in each."""
    if options.jobs == 1:
        yield from (run_program(part, options.cpu, options.cuda) for part in parts)
        return
    with concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run_program, parts, [options.cpu] * len(parts), [options.cuda] * len(parts))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cpu", default="native", help="the instruction set, as dtc compile --cpu")
    parser.add_argument("--cuda", action="store_true", help="run the kernels for GPUs as well, by emulation")
    parser.add_argument("--show", action="store_true", help="print the programs")
    options = parser.parse_args()
    last = options.first + options.count - 1
    parts, first = [], options.first
    while first <= last:  # programs are those of all seeds: a seed is in the same one whatever the first is
        end = min(last, (first - 1) // N_PER_PROGRAM * N_PER_PROGRAM + N_PER_PROGRAM)
        parts.append(list(range(first, end + 1)))
        first = end + 1
    if options.show:
        print(program_text([NumberGraph(seed, rows_of(seed)) for part in parts for seed in part]))
    counts, n_differences = collections.Counter(), 0
    for found, compared in run_programs(parts, options):
        counts += compared
        n_differences += len(found)
        for difference in found:
            print(difference, flush=True)
        if counts["graphs"] % 1000 == 0:
            print(f"{counts['graphs']} graphs, {n_differences} differences", file=sys.stderr, flush=True)
    print(f"{counts['graphs']} graphs, {counts['refused']} refused, of {counts['values']} values, {n_differences} differences; "
          f"of {counts['elements']} elements {counts['exact']} to the bit, {counts['known'] - counts['exact']} within roundings; seeds {options.first} to {last}")  # fmt: skip
    return 1 if n_differences or not parts else 0


if __name__ == "__main__":
    sys.exit(main())
