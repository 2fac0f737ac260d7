"""stages: a model whose layers stand on two processes of one core each, `--stages 2`: a step of examples/gpt.dt, without dropout, by plain gradient descent
in f32, on what `dtrun bench` makes up.

    idle       how long processes compute in a step, and how long they do not, by a timeline: beside what 1F1B must cost, (S - 1) / m of m microbatches,
               and what the fullest stage has more of the arithmetic than the mean, as `dtrun info` says
    predicted  what `dtrun info --flops --bandwidth --latency` says of a step, beside the step, of eight layouts of two models. The arithmetic that a
               core does in a second is what one process reaches; memory that two processes share is taken for a wire of 4 GB/s and 20 µs
"""
import collections
import json
import pathlib
import re
import statistics
import tempfile

import mesh
import side_by_side as bench

ROWS, STEPS, BATCH = 2, 10, 16  # of a microbatch; in a run; the global batch
MODELS = {"width 512, 4 layers": (512, 4), "width 256, 8 layers": (256, 8)}
LAYOUTS = {"half of the batch each": (1, BATCH // ROWS, []), "half of 2 shards each": (2, BATCH // ROWS, ["--shards-over", 2]),
           "2 stages": (1, BATCH // ROWS, ["--stages", 2]), "2 stages, half of the microbatches": (1, BATCH // ROWS // 2, ["--stages", 2])}


def artifact_of(model, shards=1):
    width, layers = MODELS[model]
    return mesh.compiled(f"stages_{width}_{shards}", mesh.program(), batch=ROWS, width=width, layers=layers, shards=shards)


def shape(m):
    return ["--replicas", m, "--global-batch", m * ROWS, "--devices", "cpu:1x1"]


def measured(artifact, n, m, *flags):
    """What `dtrun bench` says of a step of m microbatches over n processes."""
    command = [*mesh.launched(n), mesh.DTRUN, "bench", artifact, *shape(m), "--steps", STEPS, "--json", *flags]
    return json.loads(bench.run(command, bench.AS_ROOT).output)


# ---- idle ----

def at_work(artifact, m, folder):
    """Of each process, the seconds that it computes in the run's steps, and those of these steps."""
    path = folder / f"{m}.json"
    bench.run([*mesh.launched(2), mesh.DTRUN, "train", artifact, "--data", folder, *shape(m), "--stages", 2, "--max-steps", STEPS, "--timeline", path],
              bench.AS_ROOT)
    seconds = collections.defaultdict(collections.Counter)
    steps = collections.defaultdict(list)
    for e in json.loads(path.read_text())["traceEvents"]:
        if e["ph"] == "X" and e["cat"] == "step":
            steps[e["pid"]].append((e["ts"], e["ts"] + e["dur"]))
    for process, spans in steps.items():
        seconds[process]["step"] = sum(end - begin for begin, end in spans[1:])
    for e in json.loads(path.read_text())["traceEvents"]:
        if e["ph"] == "X" and e["cat"] == "kernel" and any(begin <= e["ts"] < end for begin, end in steps[e["pid"]][1:]):
            seconds[e["pid"]]["kernel"] += e["dur"]
    return [(one["kernel"], one["step"]) for one in seconds.values()]


def imbalance(artifact, m):
    """How much more arithmetic the fullest stage has than the mean, as a part of that."""
    text = bench.run([mesh.DTRUN, "info", artifact, *shape(m)[:4], "--processes", 2, "--stages", 2]).output
    shares = [float(share) for share in re.findall(r"^ {6} +\d+ +([\d.]+) % ", re.search(r"^step train:.*?(?=^step |\Z)", text, re.M | re.S)[0], re.M)]
    return max(shares) * len(shares) / 100 - 1


def idle(n, folder):
    bench.head(f"2 stages; {bench.counted(n, 'run')} of {STEPS - 1} steps", "idle ÷ busy", "1F1B", "imbalance", "beside these")
    for model in MODELS:
        artifact = artifact_of(model)
        for m in (8, 32):
            found = []
            for _ in range(n):
                both = at_work(artifact, m, folder)
                found.append(sum(step - busy for busy, step in both) / sum(busy for busy, _ in both))
            least, more = 1 / m, imbalance(artifact, m)
            bench.row(f"{model}, {m} microbatches", f"{100 * statistics.median(found):.1f} %", f"{100 * least:.1f} %", f"{100 * more:.1f} %",
                      f"{100 * (statistics.median(found) - least - more):.1f} points")
    print()


# ---- predicted ----

def predicted(artifact, n, m, rates, *flags):
    text = bench.run([mesh.DTRUN, "info", artifact, *shape(m)[:4], "--processes", n, *rates, *flags]).output
    return float(re.search(r"^step train:.*?a step may take ([\d.e+-]+) s", text, re.M | re.S)[1])


def rates_of(model):
    """As flags of `dtrun info`: what makes its word for one process what that takes, and the wire."""
    artifact, m = artifact_of(model), BATCH // ROWS
    at_giga = predicted(artifact, 1, m, ["--flops", "1G"])
    flops = 1e9 * at_giga / measured(artifact, 1, m)["median"]
    return ["--flops", f"{flops:.6g}", "--bandwidth", "4G", "--latency", "20u"], flops


def prediction():
    bench.head(f"steps of two processes, beside what was predicted; medians of {STEPS}", "predicted, ms", "taken, ms", "ratio")
    for model in MODELS:
        rates, flops = rates_of(model)
        for layout, (shards, m, flags) in LAYOUTS.items():
            artifact = artifact_of(model, shards)
            said, taken = predicted(artifact, 2, m, rates, *flags), measured(artifact, 2, m, *flags)["median"]
            bench.row(f"{model} ({flops / 1e9:.0f} GFLOP/s): {layout}", f"{1000 * said:.0f}", f"{1000 * taken:.0f}", f"{said / taken:.2f}")
    print()


def main():
    n = bench.n_pairs(__doc__)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        mesh.write_data(folder)
        idle(n, folder)
        prediction()


if __name__ == "__main__":
    main()
