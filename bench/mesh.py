"""mesh: tensor parallelism, a model of M shards (`mesh model = M`) over processes that hold some each, `--shards-over K`: a step of examples/gpt.dt of width
512 at global batch 16, without dropout, by plain gradient descent in f32.

    losses    first of all: those of ten steps from the same weights, ours over two processes, and those of all others
    steps     over two processes of one core each, M = 2, beside: the same processes with half of the batch and all of the model each; PyTorch's DTensor
              (`parallelize_module` over Gloo), and JAX's `jit` of arrays with shardings (`jax.distributed`, Gloo), bench/peers/tensor_parallel.py
    one core  M = 4 beside M = 1 on one device: what it costs that a model is compiled in shards
    memory    of a training of the example with 16 layers, M = 4, over four processes, beside one: peak of a process, less that of one that trains next to
              nothing
    bytes     that a process sends in a step, as `dtrun info` says, with the vocabulary in shards too, beside the formula: for a block
              8 b s h (t - 1) / t values, t processes in a group (Narayanan et al., SC21), half of it forwards
    wire      the step over 1 Gbit/s between two network namespaces (needs root): of the time in which something is under way, what the step waits for

Ours are trainings from a file with the pipeline running: the mean step from the second on, which `dtrun train` reports; on the wire, medians of
`dtrun bench`.
"""
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import side_by_side as bench

sys.path[:0] = [str(bench.ROOT / "tests/golden"), str(bench.ROOT / "tests/support")]
INSIDE = "MACHINES" in os.environ  # of these namespaces, which know another way to start processes
if INSIDE:
    import machines  # noqa: E402
WIDTH, BATCH, CONTEXT, LAYERS, STEPS = 512, 16, 128, 4, 10
REPLICAS, RATE = 2, 0.01
MOST_OFF = 1e-4  # losses, by their size
MEMORY_LAYERS, FEW = 16, 2  # steps, where memory is looked at
ALONE = "half of the batch and all of the model each"
THEIRS = {"PyTorch's DTensor over Gloo": "torch", "JAX's shardings over Gloo": "jax"}
SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
MACHINES = bench.ROOT / "tests/support/machines.sh"
DTRUN = bench.ROOT / "build/dtrun"
SHAPE = ("--replicas", REPLICAS, "--global-batch", BATCH)


def program(split_vocabulary=False):
    """The twin of examples/gpt.dt, whose data is an array, with another update."""
    text = (bench.ROOT / "tests/twins/gpt.dt").read_text()
    text, n = re.subn(r"    pace .*\n    g .*\n    apply\(.*\n    report .*\n",
                      f"    minimize(loss, sgd(learning_rate: {RATE}))\n    report loss: mean(loss)\n", text)
    if split_vocabulary:
        text, more = re.subn(r"(param table: .*= normal\(stddev: 0.02\))", r"\1, shard: 0", text)
        n *= more
    if n != 1:
        sys.exit("tests/twins/gpt.dt is not what it was")
    return text


def compiled(name, text, batch=BATCH // REPLICAS, **options):
    artifact = bench.ROOT / f"build/bench_mesh_{name}.dtx"
    source = artifact.with_suffix(".dt")
    source.write_text(text)
    defines = [f"-D{option}={value}" for option, value in {"width": WIDTH, "rate": 0, **options}.items()]
    bench.run([bench.ROOT / "build/dtc", "compile", source, *defines, "--batch", batch, "-o", artifact])
    return artifact


def write_data(folder):
    """Weights and batches, those of the peers."""
    import numpy as np
    import transformers
    from safetensors.numpy import save_file

    sizes = {**transformers.SIZES["gpt_full"], "width": WIDTH, "layers": LAYERS, "batch": BATCH, "steps": 16}
    text = transformers.batches_of(sizes)["text"]
    np.save(folder / "text.npy", text)
    for name in ("train.txt", "valid.txt"):
        (folder / name).write_bytes(text.tobytes())
    save_file(transformers.weights_of(sizes), folder / "weights.safetensors")


def launched(n):
    return [word if word != 2 else n for word in bench.TWO_PROCESSES] if n > 1 else []


def training(artifact, data, n, *flags, steps=STEPS):
    return [*launched(n), DTRUN, "train", artifact, "--data", data, "--log-format", "json", *SHAPE, "--devices", "cpu:1x1", "--max-steps", steps, *flags]


def losses_of(artifact, data, *arguments):
    output = bench.run(training(artifact, data, *arguments, "--log-every", 1, "--init", data / "weights.safetensors"), bench.AS_ROOT).output
    return [event["loss"] for event in map(json.loads, output.splitlines()) if event["event"] == "step"]


def step_of(*arguments):
    """ms"""
    return 1000 * bench.events(bench.run(training(*arguments), bench.AS_ROOT))["epoch"]["seconds_per_step"]


def peer(name):
    return bench.peer("tensor_parallel.py", "--peer", name, "--batch", BATCH, "--width", WIDTH, "--layers", LAYERS, "--steps", STEPS)[0]


def compare_losses(artifacts, data):
    """Exits where they differ."""
    wanted = losses_of(artifacts[2], data, 2, "--shards-over", 2)
    if losses_of(artifacts[2], data, 1) != wanted:
        sys.exit("two processes report other losses than one")
    others = {f"M = {shards}": losses_of(artifacts[shards], data, 1) for shards in (1, 4)}
    others |= {name: peer(short)["losses"] for name, short in THEIRS.items()}
    off = {name: max(abs(a / b - 1) for a, b in zip(found, wanted, strict=True)) for name, found in others.items()}
    print(f"losses of {len(wanted)} steps, {wanted[0]:.4f} to {wanted[-1]:.4f}: over two processes those of one; " +
          ", ".join(f"{name} off by {at:.1e}" for name, at in off.items()) + "\n")
    if not max(off.values()) <= MOST_OFF:
        sys.exit("these do not compute the same")


def steps(n, artifacts, data):
    bench.head(f"GPT step, width {WIDTH}, batch {BATCH}; {bench.counted(n, 'round')} of {STEPS} steps", "ours, ms", "beside, ms", "times as fast")
    runs = []
    for _ in range(n):
        run = {"ours": step_of(artifacts[2], data, 2, "--shards-over", 2), ALONE: step_of(artifacts[1], data, 2)}
        run |= {name: peer(short)["step_ms"] for name, short in THEIRS.items()}
        runs.append(run | {"four": step_of(artifacts[4], data, 1), "one": step_of(artifacts[1], data, 1)})
    rows = [(f"M = 2 over 2 processes of one core, beside {name}", "ours", name) for name in (ALONE, *THEIRS)]
    for title, mine, other in (*rows, ("M = 4, one process of one core, beside M = 1", "four", "one")):
        ours, beside, ratio = bench.medians([(run[mine], run[other]) for run in runs])
        bench.row(title, f"{ours:.0f}", f"{beside:.0f}", f"{ratio:.2f}")
    print()


# ---- memory ----

def peaks(command):
    """MiB, of each process of a launch: each is the child of one that writes it to a file of its own."""
    say = ("import os, resource, subprocess, sys; subprocess.run(sys.argv[2:], check=True); "
           "open(f'{sys.argv[1]}/{os.getpid()}', 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))")
    at = command.index(DTRUN)
    with tempfile.TemporaryDirectory() as folder:
        bench.run([*command[:at], sys.executable, "-c", say, folder, *command[at:]], bench.AS_ROOT)
        return sorted(int(path.read_text()) / 1024 for path in pathlib.Path(folder).iterdir())


def memory(data):
    example = (bench.ROOT / "examples/gpt.dt").read_text()
    artifact = compiled("deep", example, shards=4, layers=MEMORY_LAYERS)
    empty = compiled("empty", example, shards=4, layers=1, width=4, context=4)

    def above(n, *flags):
        mine, nothing = (peaks(training(one, data, n, *flags, steps=FEW)) for one in (artifact, empty))
        return [peak - nothing[-1] for peak in mine], nothing[-1]

    alone, of_one = above(1)
    four, of_four = above(4, "--shards-over", 4)
    bench.head(f"peak memory above that of an empty run, MiB; {MEMORY_LAYERS} layers, AdamW", "one process", "each of 4", "part of one", "empty runs")
    bench.row("M = 4", f"{alone[0]:.0f}", f"{four[0]:.0f} to {four[-1]:.0f}", f"{four[-1] / alone[0]:.2f}", f"{of_one:.0f}, {of_four:.0f}")
    print()


# ---- bytes ----

def said_bytes(artifact, processes, over):
    """Of the step `train`: {kind: bytes sent in all}, and [(place, times, bytes combined, sent)], as `dtrun info` says."""
    text = bench.run([DTRUN, "info", artifact, "--processes", processes, "--shards-over", over, *SHAPE]).output
    text = re.search(r"^step train:.*?(?=^step |\Z)", text, re.M | re.S)[0]
    kinds = collections.Counter()
    for kind, sent, unit in re.findall(r"^ +\d+ +(\w+) +\d+ +[\d.]+ \w+ +\d+ +\w+ +\d+ +([\d.]+) (\w+)", text, re.M):
        kinds[kind] += float(sent) * SIZES[unit]
    places = re.findall(r"^ {6}(\S+:\d+) +(\w+) +(\d+) +([\d.]+) (\w+) +([\d.]+) (\w+) *$", text, re.M)
    return kinds, [(place, int(times), float(a) * SIZES[b], float(c) * SIZES[d]) for place, _, times, a, b, c, d in places]


def kind_of(place, text):
    """What of the program a place is: its line says it."""
    line = text.splitlines()[int(place.rpartition(":")[2]) - 1]
    kinds = {"shard: rows": "blocks, forwards", "shard: columns": "blocks, backwards", "table[token]": "embedding", "table.T": "logits, backwards",
             "crossentropy": "cross-entropy"}
    return next((kind for mark, kind in kinds.items() if mark in line), f"beside: {line.strip()}")


def count_bytes():
    text = program(split_vocabulary=True)
    bench.head("bytes that a process sends in a step", "times", "MiB", "by the formula, MiB", "ratio")
    for processes, over in ((2, 2), (4, 2), (4, 4)):
        artifact = compiled("vocabulary", text, shards=4)
        rows = BATCH * over // processes  # of a process
        values = rows * CONTEXT * WIDTH * (over - 1) / over
        formulas = {"blocks, forwards": 4 * LAYERS * values, "blocks, backwards": 4 * LAYERS * values, "embedding": 2 * values, "logits, backwards": 2 * values,
                    "cross-entropy": 2 * 3 * values / WIDTH}
        kinds, places = said_bytes(artifact, processes, over)
        found = {kind: [0, 0] for kind in formulas}
        for place, times, _, sent in places:
            one = found.setdefault(kind_of(place, text), [0, 0])
            one[0], one[1] = one[0] + times, one[1] + sent
        where = f"{processes} processes, {over} a group: "
        for kind, (times, sent) in found.items():
            formula = 4 * formulas.get(kind, float("nan"))
            bench.row(where + kind, f"{times:,}", f"{sent / SIZES['MiB']:.3f}", f"{formula / SIZES['MiB']:.3f}", f"{sent / formula:.3f}")
        total, lowered = sum(sent for _, sent in found.values()), kinds["shard_reduce"]
        bench.row(where + "what the schedules send, beside all of these", "", *(f"{n / SIZES['MiB']:.3f}" for n in (lowered, total)), f"{lowered / total:.3f}")
        bench.row(where + "gradients, between groups", "", f"{(sum(kinds.values()) - lowered) / SIZES['MiB']:.3f}", "", "")
    print()


# ---- wire ----

def figures(command):
    """Of a `dtrun bench` on two machines, a process each."""
    with machines.Mpirun([0, 1], command) as run:
        if run.wait(600) != 0:
            sys.exit(f"{command}: {run.output()}")
        output = run.output()
    return json.loads(output[output.index("{"):output.rindex("}") + 1])


def wire(n):
    """Within namespaces: a row for the model over two machines, and for the batch."""
    machines.build()
    artifacts = {shards: pathlib.Path(os.environ[f"MESH_{shards}"]) for shards in (1, 2)}
    with machines.cables():
        for i in (0, 1):
            machines.limit(i, "1gbit")
        bench.head(f"1 Gbit/s; {bench.counted(n, 'run')}", "step, ms", "under way, ms", "waited for, ms")
        for title, shards, flags in (("M = 2 over 2 processes", 2, ["--shards-over", 2]), (ALONE, 1, [])):
            runs = []
            for _ in range(n):
                found = figures(["dtrun", "bench", artifacts[shards], *SHAPE, "--devices", "cpu:1x1", "--steps", STEPS, "--json", *flags])
                runs.append([1000 * found[name] for name in ("median", "exchanging", "exposed")])
            bench.row(title, *(f"{statistics.median(column):.0f}" for column in zip(*runs)))


def over_a_wire(n, artifacts):
    environment = {**os.environ, "DT_PYTHON": sys.executable, **{f"MESH_{shards}": str(path) for shards, path in artifacts.items()}}
    done = subprocess.run([MACHINES, __file__, "--pairs", str(n)], env=environment, check=False)
    if done.returncode == 77:
        print("No row for a wire of 1 Gbit/s: that takes network namespaces, which this process may not make.")
    elif done.returncode != 0:
        sys.exit(done.returncode)


def main():
    n = bench.n_pairs(__doc__)
    if INSIDE:
        wire(n)
        return
    with tempfile.TemporaryDirectory() as name:
        data = pathlib.Path(name)
        write_data(data)
        artifacts = {shards: compiled(shards, program(), shards=shards) for shards in (1, 2, 4)}
        compare_losses(artifacts, data)
        steps(n, artifacts, data)
        memory(data)
        count_bytes()
        over_a_wire(n, artifacts)


if __name__ == "__main__":
    main()
