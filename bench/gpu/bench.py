"""bench: speed on this GPU, beside others on the same GPU in the same run.

The two of a pair run one right after the other; figures are medians over pairs, a ratio is the median of the pairs' ratios. What is not installed
has an empty column, and a row that fails says why.
"""
import json
import os
import pathlib
import selectors
import statistics
import subprocess
import sys

from report import DATA, FAKE, ROOT, SCRATCH, Failed, Report, compile_program, emulate, gpu, left, median_ratio, run

folder = pathlib.Path(sys.argv[1])
report = Report(folder, "bench")
ARCHITECTURE = gpu()[1]
PEERS = {"torch": "PyTorch, torch.compile", "jax": "JAX, jit"}
PAIRS, EPOCHS = (1, 1) if FAKE else (3, 3)
COMPILING = 150  # seconds that a peer may take for its first answer
GIGABYTE = 1e9


# ---- peers ----


class Peer:
    """A process of bench/peers/gpu_NAME.py; `version` is None where it cannot run here, and `why` says why."""

    def __init__(self, name):
        self.name, self.version, self.why = name, None, ""
        self.errors = open(folder / f"bench_{name}.log", "w")
        python = os.environ.get("PEER_PYTHON", "python3")
        try:
            self.process = subprocess.Popen([python, ROOT / f"bench/peers/gpu_{name}.py", DATA], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=self.errors, text=True)
            self.version = self.read(60)["version"]
        except (OSError, Failed) as error:
            self.why = str(error)

    def read(self, seconds):
        """Its next line. One that does not answer in time is ended, and is missing from then on."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if waiting.select(max(0, min(seconds, left()))) else None
        if not line:
            self.end()
            raise Failed("no answer in time" if line is None else "ended: bench_" + self.name + ".log says why")
        return json.loads(line)

    def train(self, model, batch, precision):
        """(images a second, accuracy); None and why where it cannot."""
        if self.version is None:
            return None, self.why
        try:
            self.process.stdin.write(json.dumps({"model": model, "batch": batch, "precision": precision, "epochs": EPOCHS}) + "\n")
            self.process.stdin.flush()
            said = self.read(COMPILING)
        except (OSError, Failed) as error:
            return None, str(error)
        return (None, said["error"]) if "error" in said else (statistics.median(said["images_per_second"]), said["accuracy"])

    def end(self):
        self.version = None
        self.process.kill()
        self.process.wait()


# ---- trainings ----


def train(artifact, devices, batch):
    """(examples a second by dtrun's own clock, accuracy on the test set)"""
    steps = ("--max-steps", 3) if FAKE else ()
    said = run(["dtrun", "train", artifact, "--data", DATA, "--epochs", EPOCHS, "--devices", devices, "--global-batch", batch,
                "--log-every", 0, "--log-format", "json", *steps])
    epochs = [event for event in map(json.loads, said.splitlines()) if event["event"] == "epoch"]
    rate = statistics.median(event["examples_per_second"] for event in epochs if event["step"] == "train")
    return rate, next((event["accuracy"] for event in reversed(epochs) if event["step"] == "evaluate"), None)


def step_alone(artifact, batch):
    """Examples a second of a step whose batch waits in memory."""
    steps = 2 if FAKE else 200
    said = run(["dtrun", "bench", artifact, "--devices", "cuda:0", "--global-batch", batch, "--steps", steps, "--json"])
    return json.loads(said)["examples_per_second"]


def shown(number, form="{:,.0f}"):
    return None if number is None else form.format(number)


def training_row(model, batch, precision, peers):
    name = f"{model}, batch {batch}, {precision}"
    try:
        artifact = compile_program(ARCHITECTURE, ROOT / f"examples/{model}.dt", model, "--batch", batch, "--precision", precision)
        runs = [(train(artifact, "cuda:0", batch), {peer.name: peer.train(model, batch, precision) for peer in peers}) for _ in range(PAIRS)]
    except Failed as failure:
        return report.row(name, str(failure))
    try:
        alone = step_alone(artifact, batch)
    except Failed as failure:
        alone = None
        report.say(f"{name}, the step alone: {failure}")
    ours = [rate for (rate, _), _ in runs]
    cells, raw, ratios = [], {"ours": ours, "ours_alone": alone}, []
    for peer in peers:
        theirs = [theirs[peer.name][0] for _, theirs in runs]
        raw[peer.name] = theirs if None not in theirs else runs[-1][1][peer.name][1]
        cells.append(shown(None if None in theirs else statistics.median(theirs)))
        if None not in theirs:
            ratios.append(median_ratio(list(zip(ours, theirs))))
            raw[f"{peer.name}_accuracy"] = runs[-1][1][peer.name][1]
    accuracies = [runs[-1][0][1], *(raw.get(f"{peer.name}_accuracy") for peer in peers)]
    report.row(name, shown(statistics.median(ours)), shown(alone), *cells, shown(min(ratios, default=None), "{:.2f}"),
               *(shown(accuracy, "{:.4f}") for accuracy in accuracies), numbers=raw)
    return None


def trainings(peers, rows):
    titles = [f"{PEERS[peer.name]} {peer.version}" if peer.version else PEERS[peer.name] for peer in peers]
    report.table(f"images a second; {PAIRS} pairs, {EPOCHS} epochs each", "ours, a training", "ours, the step alone", *titles, "ours / the faster",
                 "accuracy, ours", *(f"accuracy, {PEERS[peer.name]}" for peer in peers))
    for row in rows:
        training_row(*row, peers)


def accuracy_on_cpu():
    """The same training on the cores of this machine, for its accuracy."""
    try:
        artifact = compile_program(ARCHITECTURE, ROOT / "examples/fashion_cnn.dt", "cpu", "--batch", 128)
        rate, accuracy = train(artifact, "cpu", 128)
        report.row("fashion_cnn, batch 128, f32, on this machine's CPU", shown(rate), None, None, None, None, shown(accuracy, "{:.4f}"))
    except Failed as failure:
        report.row("fashion_cnn on this machine's CPU", str(failure))


# ---- kernels ----


def kernels(program, *flags):
    """What bench/gpu_kernels.c says of a program's kernels."""
    source = ROOT / program
    if FAKE:
        text = SCRATCH / "kernels.cu"
        batch = [word for flag, word in zip(flags, flags[1:]) if flag == "--rows"]
        others = [word for i, word in enumerate(flags) if word == "-D" or flags[i - 1] == "-D"]
        text.write_text(run(["dtc", "compile", "--target", f"cuda:{ARCHITECTURE}", "--emit=cuda", source, "--batch", batch[0], *others]))
        emulate(text)
        flags += ("--copy", 65536, "--launches", 1)
    return json.loads(run([os.environ["DT_GPU_KERNELS"], source, *flags]))


def bandwidth_row(kernel, copying):
    rate = kernel["bytes"] / kernel["seconds"]
    report.row(f"{kernel['step']} `{kernel['name']}`", f"{kernel['bytes'] / 2**20:,.2f}", f"{1e6 * kernel['seconds']:,.1f}",
               f"{rate / GIGABYTE:,.0f}", f"{rate / copying:.2f}", f"{kernel['flops'] / kernel['seconds'] / GIGABYTE:,.0f}", numbers=kernel)


def bandwidth_table(title, program, *flags):
    try:
        said = kernels(program, *flags)
    except Failed as failure:
        report.table(title, "result")
        return report.row(program, str(failure))
    copying = said["copy_bytes_per_second"]
    report.table(f"{title}; copying {copying / GIGABYTE:,.0f} GB/s", "MiB", "µs", "GB/s", "of copying", "GFLOP/s")
    for kernel in said["kernels"]:
        bandwidth_row(kernel, copying)
    return None


def forms():
    sizes = ("--rows", 2, "-D", "places=64", "-D", "side=8") if FAKE else ("--rows", 65536, "--indices", 65536)
    bandwidth_table("kernels that memory bounds", "bench/gpu/forms.dt", *sizes)


def sizes_of_programs():
    for model, batch in (("perceptron", 32),) if FAKE else (("perceptron", 32), ("fashion_cnn", 128)):
        bandwidth_table(f"kernels of {model}, batch {batch}", f"examples/{model}.dt", "--rows", batch, "--step", "train")


# ---- products ----

# rows, inner, units: large ones, then those of the programs
PRODUCTS = [(64, 256, 128)] if FAKE else [(4096, 4096, 4096), (8192, 8192, 8192), (2048, 8192, 1024), (32, 784, 128), (128, 3200, 10)]
PRECISIONS = ["bf16"] if FAKE else ["f32", "tf32", "bf16"]


def product_by(flags, rows, inner, units, precision):
    """Seconds of the product's kernel, and whether a library did it: small ones stay generated."""
    said = kernels("bench/gpu/products.dt", "--rows", rows, "-D", f"inner={inner}", "-D", f"units={units}", "--precision", precision, *flags)["kernels"]
    if flags and not any(kernel["by_libraries"] for kernel in said):
        raise Failed("it is generated, as the library is not asked for it")
    return sum(kernel["seconds"] for kernel in said)


def alone(rows, inner, units, precision, order):
    return json.loads(run([os.environ["DT_GPU_CUBLASLT"], rows, inner, units, precision, order, *((1,) if FAKE else ())]))["seconds"]


def product_row(rows, inner, units, precision):
    name, shape = f"{rows} × {inner} × {units}, {precision}", (rows, inner, units, precision)
    ways = {"generated": lambda: product_by((), *shape), "library": lambda: product_by(("--library",), *shape),
            "ordered": lambda: alone(*shape, "ordered"), "any": lambda: alone(*shape, "any")}
    if FAKE:
        del ways["any"]  # the fake takes such a way for the mistake that it would be in the runtime
    seconds = {}
    for way, measure in ways.items():
        try:
            seconds[way] = measure()
        except Failed as failure:
            report.say(f"product {name}, {way}: {failure}")
    cells = [shown(1e6 * seconds[way], "{:,.1f}") if way in seconds else None for way in ("generated", "library", "ordered", "any")]
    ratio = seconds["ordered"] / seconds["library"] if {"library", "ordered"} <= set(seconds) else None
    report.row(name, *cells, shown(ratio, "{:.2f}"), shown(2e-12 * rows * inner * units / min(seconds.values(), default=float("inf")), "{:.1f}"),
               numbers=seconds)


def products():
    report.table("products, µs", "generated", "by the runtime's call of cuBLASLt", "cuBLASLt alone, in one order", "cuBLASLt alone, in any order",
                 "alone in one order / the runtime's call", "TFLOP/s of the fastest")
    for shape in PRODUCTS:
        for precision in PRECISIONS:
            product_row(*shape, precision)


def main():
    peers = [Peer(name) for name in PEERS]
    for peer in peers:
        if peer.version is None:
            report.say(f"{PEERS[peer.name]} is not here: {peer.why}")
    if FAKE:
        trainings(peers, [("perceptron", 8, "f32")])
    else:
        trainings(peers, [("fashion_cnn", 128, "f32"), ("perceptron", 32, "f32"), ("fashion_cnn", 128, "tf32"), ("fashion_cnn", 128, "bf16")])
        accuracy_on_cpu()
    forms()
    sizes_of_programs()
    products()
    if not FAKE:
        trainings(peers, [("fashion_cnn", 1024, "f32"), ("fashion_cnn", 1024, "bf16")])
    for peer in peers:
        if peer.version is not None:
            peer.end()


main()
