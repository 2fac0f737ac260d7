"""python: what a step costs more from Python than from C: the training step of examples/perceptron.dt at batch 32, on one core.

  from C        bench/step_call.c: dtrt_step on a batch in memory, then dtrt_reports
  from Python   session.step("train", image=array, label=array)["loss"] with arrays of NumPy's, a process of its own

Each is the median of 10,000 calls. The issue is what is between them, so the last column is the median of the pairs' differences.

And what an epoch of session.train costs on arrays, beside `dtrun train` on the same images in files, and beside Keras's model.fit on the same arrays
(bench/peers/fit.py): steps a second of the second of two epochs, shuffled, of the perceptron on one core and of the CNN on two.
"""
import gzip
import json
import pathlib
import statistics
import sys
import tempfile
import time

import side_by_side as bench

STEPS = 10000
DEVICES = "cpu:1x1"


def from_c():
    return float(bench.run([bench.ROOT / "build/bench/step_call", bench.PERCEPTRON, DEVICES, STEPS]).output)


def from_python():
    return float(bench.run([sys.executable, __file__, "--measure"], {"PYTHONPATH": str(bench.ROOT / "build/python")}).output)


def measure():
    import dt
    import numpy

    program = dt.open(bench.PERCEPTRON)
    session = program.session(devices=DEVICES)
    arrays = {tensor.name: numpy.zeros([session.global_batch, *tensor.shape[1:]], numpy.uint8) for tensor in program.steps["train"].inputs}
    image, label = arrays["image"], arrays["label"]
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        session.step("train", image=image, label=label)["loss"]
        times.append(time.perf_counter() - begin)
    print(1e6 * statistics.median(times))


MODELS = {"perceptron": (bench.PERCEPTRON, 32, DEVICES, 1, 1875), "cnn": (bench.CNN, bench.BATCH, "cpu:2", 2, 100)}  # artifact, batch, devices, replicas, steps


def rows(model):
    _, batch, _, _, steps = MODELS[model]
    arrays = []
    for name in ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"):
        data = gzip.decompress((pathlib.Path(bench.DATA) / name).read_bytes())
        shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
        arrays.append((data[:4 + 4 * data[3]], data[4 + 4 * data[3]:], shape, batch * steps))
    return arrays


def write_files(folder, model):
    """The first rows of the training set, as files, and the test set as it is."""
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        (folder / name).symlink_to(pathlib.Path(bench.DATA) / name)
    for name, (head, data, shape, n) in zip(("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"), rows(model)):
        row = len(data) // shape[0]
        (folder / name).write_bytes(gzip.compress(head[:4] + n.to_bytes(4, "big") + head[8:] + data[:n * row], 1))


def fit_by_dtrun(model, folder):
    artifact, batch, devices, replicas, _ = MODELS[model]
    done = bench.run([bench.ROOT / "build/dtrun", "train", artifact, "--data", folder, "--epochs", 2, "--devices", devices, "--replicas", replicas,
                      "--log-format", "json"])
    epochs = [event for event in map(json.loads, done.output.splitlines()) if event["event"] == "epoch" and event["step"] == "train"]
    return epochs[1]["steps"] / epochs[1]["seconds"]


def fit_by_python(model):
    return float(bench.run([sys.executable, __file__, "--fit", model], {"PYTHONPATH": str(bench.ROOT / "build/python")}).output)


def fit(model):
    import dt
    import numpy

    artifact, batch, devices, replicas, steps = MODELS[model]
    arrays = [numpy.frombuffer(data, numpy.uint8).reshape(shape)[:n] for _, data, shape, n in rows(model)]
    session = dt.open(artifact).session(devices=devices, replicas=replicas)
    reports = session.train(tuple(arrays), batch_size=batch, epochs=2, progress=False).run().reports
    print(steps / reports[1].seconds)


def fit_by_keras(model):
    _, batch, _, threads, steps = MODELS[model]
    return bench.peer("fit.py", "--model", model, "--batch", batch, "--threads", threads, "--steps", steps)[0]["steps_per_second"]


def fits(n):
    bench.head(f"an epoch on arrays; {bench.counted(n)}", "dtrun, steps/s", "Python, steps/s", "of dtrun's", "more, µs a step", "Keras, steps/s", "times as fast")
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            write_files(pathlib.Path(folder), model)
            runs = [(fit_by_dtrun(model, folder), fit_by_python(model), fit_by_keras(model)) for _ in range(n)]
        ours, python, keras = (statistics.median(column) for column in zip(*runs))
        share, more = statistics.median(b / a for a, b, _ in runs), statistics.median(1e6 / b - 1e6 / a for a, b, _ in runs)
        bench.row(model, f"{ours:,.0f}", f"{python:,.0f}", f"{share:.3f}", f"{more:.1f}", f"{keras:,.0f}",
                  f"{statistics.median(b / c for _, b, c in runs):.1f}")


def main():
    n = bench.n_pairs(__doc__)
    runs = [(from_c(), from_python()) for _ in range(n)]
    bench.head(f"a step of the perceptron, batch 32; {bench.counted(n)} of {STEPS:,} calls", "from C, µs", "from Python, µs", "more, µs")
    c, python = (statistics.median(column) for column in zip(*runs))
    bench.row("step and its loss", f"{c:.2f}", f"{python:.2f}", f"{statistics.median(b - a for a, b in runs):.2f}")
    print()
    fits(n)


if sys.argv[1:] == ["--measure"]:
    measure()
elif sys.argv[1:2] == ["--fit"]:
    fit(sys.argv[2])
else:
    main()
