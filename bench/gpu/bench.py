"""bench: speed on this GPU, beside others on the same GPU in the same run.

While the other frameworks import themselves, forms of kernels are timed; then comes the training that says most, beside both of them; then all else, as
far as time goes. The two of a pair of trainings run one right after the other; figures are medians over pairs, a ratio is the median of the pairs'
ratios. What is not installed has an empty column, and a row that fails says why.
"""
import json
import os
import queue
import statistics
import subprocess
import threading
import time

from report import DATA, FAKE, FOLDER, LIMIT, ROOT, SCRATCH, Failed, Report, compile_program, emulate, gpu, left, median_ratio, run, understood, within

report = Report("bench")
ARCHITECTURE = gpu()[1]
PEERS = {"torch": "PyTorch, torch.compile", "jax": "JAX, jit"}
PAIRS, EPOCHS = (1, 1) if FAKE else (3, 3)
# Seconds, of LIMIT for all: until a peer is there, until it answers (it compiles for its first answer), one program's kernels, all products.
IMPORTING, ANSWERING, KERNELS, PRODUCTS = (LIMIT,) * 4 if FAKE else (120, 100, 30, 60)
GIGABYTE = 1e9


# ---- peers ----


class Peer:
    """A process of bench/peers/gpu_NAME.py, which starts at once. `version` is None until it has arrived, and where it cannot run here."""

    def __init__(self, name):
        self.name, self.version, self.errors = name, None, open(FOLDER / f"bench_{name}.log", "w")
        self.start()

    def start(self):
        self.process, self.is_there, self.began, self.lines = None, False, time.monotonic(), queue.SimpleQueue()
        python = os.environ.get("PEER_PYTHON", "python3")
        try:
            self.process = subprocess.Popen([python, ROOT / f"bench/peers/gpu_{self.name}.py", DATA], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=self.errors, text=True)
        except OSError as error:
            report.say(f"{PEERS[self.name]} is not here: {error}")
            return
        threading.Thread(target=self.listen, args=(self.process.stdout, self.lines), daemon=True).start()

    @staticmethod
    def listen(output, lines):
        for line in output:
            lines.put(line)
        lines.put(None)  # it has ended

    def arrive(self):
        """Waits until it is there; whether it is. One that was there and has ended is started again; one that does not come is missing from then on."""
        if self.process is None and self.version is not None:
            self.start()
        if self.process is not None and not self.is_there:
            try:
                self.version = self.read(self.began + IMPORTING - time.monotonic(), "version")["version"]
                self.is_there = True
            except Failed as error:
                self.version = None
                report.say(f"{PEERS[self.name]} is not here: {error}")
        return self.is_there

    def read(self, seconds, *wanted):
        """Its next answer, which has one of these fields. A peer that does not answer in time is ended."""
        until = time.monotonic() + min(seconds, left())
        try:
            while (line := self.lines.get(timeout=max(0, until - time.monotonic()))) is not None:
                try:
                    answer = json.loads(line)
                except ValueError:
                    answer = None
                if isinstance(answer, dict) and any(field in answer for field in wanted):
                    return answer
                self.errors.write(f"no answer: {line}")
            why = f"ended: bench_{self.name}.log says why"
        except queue.Empty:
            why = "no answer in time"
        self.end()
        raise Failed(why)

    @understood
    def train(self, model, batch, precision):
        """(images a second of the fastest way, its accuracy, {way: images a second}). Raises Failed where it cannot."""
        try:
            self.process.stdin.write(json.dumps({"model": model, "batch": batch, "precision": precision, "epochs": EPOCHS}) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            self.end()
            raise Failed(str(error)) from None
        said = self.read(ANSWERING, "images_per_second", "error")
        if "error" in said:
            raise Failed(said["error"])
        ways = {way: statistics.median(rates) for way, rates in said["images_per_second"].items()}
        return max(ways.values()), said["accuracy"], ways

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process, self.is_there = None, False


# ---- trainings ----


@understood
def train(artifact, devices, batch):
    """(examples a second by dtrun's own clock, accuracy on the test set)"""
    steps = ("--max-steps", 3) if FAKE else ()
    said = run(["dtrun", "train", artifact, "--data", DATA, "--epochs", EPOCHS, "--devices", devices, "--global-batch", batch,
                "--log-every", 0, "--log-format", "json", *steps])
    epochs = [event for event in map(json.loads, said.splitlines()) if event["event"] == "epoch"]
    rate = statistics.median(event["examples_per_second"] for event in epochs if event["step"] == "train")
    return rate, next((event["accuracy"] for event in reversed(epochs) if event["step"] == "evaluate"), None)


@understood
def step_alone(artifact, batch):
    """Examples a second of a step whose batch waits in memory."""
    steps = 2 if FAKE else 200
    said = run(["dtrun", "bench", artifact, "--devices", "cuda:0", "--global-batch", batch, "--steps", steps, "--json"])
    return json.loads(said)["examples_per_second"]


def shown(number, form="{:,.0f}"):
    return None if number is None else form.format(number)


def take_turns(artifact, model, batch, precision, peers):
    """(ours, {peer: its images a second in each pair}, {peer: accuracy after as many epochs as ours}); a peer that fails has no more turns."""
    ours, theirs, accuracies, going = [], {}, {}, [peer for peer in peers if peer.arrive()]
    for _ in range(PAIRS):
        ours.append(train(artifact, "cuda:0", batch))
        for peer in list(going):
            about = f"{model}, batch {batch}, {precision}, {PEERS[peer.name]}"
            try:
                rate, accuracy, ways = peer.train(model, batch, precision)
            except Failed as failure:
                going.remove(peer)
                report.say(f"{about}: {failure}")
                continue
            theirs.setdefault(peer.name, []).append(rate)
            if peer.name not in accuracies:
                accuracies[peer.name] = accuracy
                report.say(f"{about}: " + ", ".join(f"{shown(way_rate)} images a second with {way}" for way, way_rate in ways.items()))
    return ours, theirs, accuracies


def training_row(model, batch, precision, peers):
    name = f"{model}, batch {batch}, {precision}"
    try:
        artifact = compile_program(ARCHITECTURE, ROOT / f"examples/{model}.dt", model, "--batch", batch, "--precision", precision)
        ours, theirs, accuracies = take_turns(artifact, model, batch, precision, peers)
    except Failed as failure:
        return report.row(name, str(failure))
    try:
        alone = step_alone(artifact, batch)
    except Failed as failure:
        alone = None
        report.say(f"{name}, the step alone: {failure}")
    rates = [rate for rate, _ in ours]
    raw = {"ours": rates, "ours_alone": alone, **theirs, **{f"{peer}_accuracy": accuracy for peer, accuracy in accuracies.items()}}
    medians = [statistics.median(theirs[peer.name]) if peer.name in theirs else None for peer in peers]
    ratio = min((median_ratio(list(zip(rates, others))) for others in theirs.values()), default=None)
    report.row(name, shown(statistics.median(rates)), shown(alone), *map(shown, medians), shown(ratio, "{:.2f}"),
               *(shown(accuracy, "{:.4f}") for accuracy in (ours[0][1], *(accuracies.get(peer.name) for peer in peers))), numbers=raw)
    return None


def trainings(peers, rows):
    for peer in peers:
        peer.arrive()
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


@understood
def kernels(program, *flags):
    """What bench/gpu_kernels.c says: (of the GPU, [of each kernel], None or the failure that cut it short)."""
    source, failure = ROOT / program, None
    if FAKE:
        text = SCRATCH / "kernels.cu"
        batch = [word for flag, word in zip(flags, flags[1:]) if flag == "--rows"]
        others = [word for i, word in enumerate(flags) if word == "-D" or flags[i - 1] == "-D"]
        text.write_text(run(["dtc", "compile", "--target", f"cuda:{ARCHITECTURE}", "--emit=cuda", source, "--batch", batch[0], *others]))
        emulate(text)
        flags += ("--launches", 1)
    try:
        printed = run([os.environ["DT_GPU_KERNELS"], source, *flags], timeout=KERNELS)
    except Failed as failed:
        printed, failure = failed.printed, failed
    lines = [json.loads(line) for line in printed.rpartition("\n")[0].splitlines()]
    if not lines:
        raise failure or Failed("it says nothing")
    return lines[0], lines[1:], failure


@understood
def bandwidth_row(kernel, copying):
    name = f"{kernel['step']} `{kernel['name']}`"
    if "error" in kernel:
        return report.row(name, kernel["error"])
    rate = kernel["bytes"] / kernel["seconds"]
    report.row(name, f"{kernel['bytes'] / 2**20:,.2f}", f"{1e6 * kernel['seconds']:,.1f}", f"{rate / GIGABYTE:,.0f}",
               shown(copying and rate / copying, "{:.2f}"), f"{kernel['flops'] / kernel['seconds'] / GIGABYTE:,.0f}", numbers=kernel)
    return None


def bandwidth_table(title, copying, program, *flags):
    """Bytes a second that copying reaches: measured once, and then passed on; None where it is not known."""
    try:
        about, found, failure = kernels(program, *flags, *(() if copying else ("--copy", 65536 if FAKE else 2**30)))
    except Failed as failed:
        report.table(title, "result")
        report.row(program, str(failed))
        return copying
    copying = copying or about.get("copy_bytes_per_second")
    report.table(f"{title}; copying {shown(copying and copying / GIGABYTE) or '?'} GB/s", "MiB", "µs", "GB/s", "of copying", "GFLOP/s")
    for kernel in found:
        try:
            bandwidth_row(kernel, copying)
        except Failed as failed:
            report.row(str(kernel), str(failed))
    if failure is not None:
        report.row(f"{program}: all of it", str(failure))
    return copying


def kernels_of_forms():
    sizes = ("--rows", 2, "-D", "places=64", "-D", "side=8") if FAKE else ("--rows", 65536, "--indices", 2**20)
    return bandwidth_table("kernels that memory bounds", None, "bench/gpu/forms.dt", *sizes)


def kernels_of_programs(copying):
    for model, batch in (("perceptron", 32),) if FAKE else (("fashion_cnn", 128), ("perceptron", 32)):
        copying = bandwidth_table(f"kernels of {model}, batch {batch}", copying, f"examples/{model}.dt", "--rows", batch, "--step", "train")


# ---- products ----

# rows, inner, units: the largest first, those of the programs last
SHAPES = [(64, 256, 128)] if FAKE else [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 8192, 1024), (128, 3200, 10), (32, 784, 128)]
PRECISIONS = ["bf16"] if FAKE else ["f32", "tf32", "bf16"]


@understood
def product_by(flags, rows, inner, units, precision):
    """Seconds of the product's kernel, and whether a library did it: small ones stay generated."""
    _, found, failure = kernels("bench/gpu/products.dt", "--rows", rows, "-D", f"inner={inner}", "-D", f"units={units}", "--precision", precision, *flags)
    if failure is not None:
        raise failure
    if flags and not any(kernel["by_libraries"] for kernel in found):
        raise Failed("it is generated, as the library is not asked for it")
    return sum(kernel["seconds"] for kernel in found)


@understood
def alone(rows, inner, units, precision):
    """{"ordered": seconds, "any": seconds}, of these what is known, and None or the failure of the rest; the fake takes a product in any order for the
    mistake that it would be in the runtime."""
    failure = None
    try:
        printed = run([os.environ["DT_GPU_CUBLASLT"], rows, inner, units, precision, *(("ordered", 1) if FAKE else ("any",))], timeout=KERNELS)
    except Failed as failed:
        printed, failure = failed.printed, failed
    return {said["order"]: said["seconds"] for said in map(json.loads, printed.splitlines())}, failure


def product_row(rows, inner, units, precision):
    name, shape = f"{rows} × {inner} × {units}, {precision}", (rows, inner, units, precision)
    ways = {"generated": lambda: ({"generated": product_by((), *shape)}, None), "alone": lambda: alone(*shape),
            "library": lambda: ({"library": product_by(("--library",), *shape)}, None)}
    seconds = {}
    for way, measure in ways.items():
        try:
            found, failure = measure()
            seconds.update(found)
        except Failed as failed:
            failure = failed
        if failure is not None:
            report.say(f"product {name}, {way}: {failure}")
    cells = [shown(1e6 * seconds[way], "{:,.1f}") if way in seconds else None for way in ("generated", "library", "ordered", "any")]
    ratio = seconds["ordered"] / seconds["library"] if {"library", "ordered"} <= set(seconds) else None
    report.row(name, *cells, shown(ratio, "{:.2f}"), shown(2e-12 * rows * inner * units / min(seconds.values(), default=float("inf")), "{:.1f}"),
               numbers=seconds)


def products():
    report.table("products, µs", "generated", "by the runtime's call of cuBLASLt", "cuBLASLt alone, in one order", "cuBLASLt alone, in any order",
                 "alone in one order / the runtime's call", "TFLOP/s of the fastest")
    with within(PRODUCTS):
        for shape in SHAPES:
            for precision in PRECISIONS:
                if left() <= 1:
                    return report.say(f"products from {' × '.join(map(str, shape))}, {precision} on: no time was left")
                product_row(*shape, precision)
    return None


def main():
    peers = [Peer(name) for name in PEERS]
    copying = kernels_of_forms()
    trainings(peers, [("perceptron", 32, "f32") if FAKE else ("fashion_cnn", 128, "f32")])
    kernels_of_programs(copying)
    products()
    if not FAKE:
        trainings(peers, [("perceptron", 32, "f32"), ("fashion_cnn", 128, "tf32"), ("fashion_cnn", 128, "bf16")])
        accuracy_on_cpu()
        trainings(peers, [("fashion_cnn", 1024, "f32"), ("fashion_cnn", 1024, "bf16")])
    for peer in peers:
        peer.end()


main()
