"""Each program of examples/ that trains: its first steps on the GPU beside the same steps on the CPU, with replicas that share the GPU,
by generated kernels alone and with the vendor's libraries; those with convolutions and with attention in each precision of products.

Numbers are rounded in another order. So a loss, or the norm of a gradient, and a parameter's tensor may differ by some part of their size: what that
is between two instruction sets of a CPU is far below these limits, and the planted difference, another seed, far above. In tf32 and bf16 the CPU rounds
factors just as the GPU does; but what lies near the middle between two of them goes to either side, and a library may round in its own way.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu import *  # noqa: E402,F403

STEPS, REPLICAS = (3, 2) if FAKE else (20, 2)
LIMITS = {"f32": (0.005, 0.01), "tf32": (0.01, 0.03), "bf16": (0.05, 0.1)}  # of a loss or a norm, of a parameter
SIZES = {
    "gpt": ("context=8", "width=16", "heads=2", "layers=1") if FAKE else ("context=32", "layers=2"),
    "bert_mlm": ("context=64", "predictions=12"),
}
PROGRAMS = [("own_parts", "f32"), ("gpt", "f32")] if FAKE else [
    *((name, "f32") for name in ("perceptron", "fashion_cnn", "resnet", "gan", "own_parts", "gpt", "bert_mlm")),
    *((name, precision) for name in ("fashion_cnn", "gpt") for precision in ("tf32", "bf16"))]
VOCABULARY = 1000  # of bert_mlm: thirty times less to compare


def program(name):
    """Its text; this dtrun reads no texts, so tokens come from arrays."""
    text = (pathlib.Path(os.environ["DT_SOURCE"]) / f"examples/{name}.dt").read_text()
    text = re.sub(r'bytes\("(\w+)\.txt"\) \| windows\(.*?shift: context\)', r'npy("\1_bytes.npy")', text)
    text = re.sub(r'lines\(file\) \|.*', "npy(file)", text).replace("vocab_size = 30522", f"vocab_size = {VOCABULARY}")
    return re.sub(r'paragraphs\("(\w+)\.txt"\)', r'paragraphs("\1_tokens.npy")', text)


def option(name, option_name):
    return int(dict(pair.split("=") for pair in SIZES[name])[option_name])


def write_array(path, kind, code, n, width, most):
    """n rows of integers below `most`, each near the one before it, so that there is something to learn. As NumPy saves them."""
    numbers = random.Random(5)
    rows = array.array(code, (numbers.randrange(most) for _ in range(n * width)))
    for i in range(1, n * width):
        rows[i] = rows[i] if i % width == 0 or numbers.random() < 0.3 else (rows[i - 1] + 1) % most
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({n}, {width}), }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + rows.tobytes())


def write_numbers(folder, n=2000):
    """A target that is a sum of the eight numbers before it."""
    numbers = random.Random(3)
    lines = ["a,b,c,d,e,f,g,h,target"]
    for _ in range(n):
        row = [numbers.uniform(-1, 1) for _ in range(8)]
        lines.append(",".join(f"{x:.6f}" for x in [*row, sum((i + 1) * x for i, x in enumerate(row)) / 8]))
    (folder / "numbers.csv").write_text("\n".join(lines) + "\n")


def write_all(folder):
    write_numbers(write_images(folder))
    for part in ("train", "valid", "test"):
        write_array(folder / f"{part}_bytes.npy", "|u1", "B", 2000, option("gpt", "context") + 1, 256)
        write_array(folder / f"{part}_tokens.npy", "<i4", "i", 500, option("bert_mlm", "context"), VOCABULARY)
    return folder


def train(artifact, devices, *flags):
    """The reports of each step, and the parameters at the end."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    run = Run("train", artifact, "--data", data, "--max-steps", STEPS, "--replicas", REPLICAS, "--devices", devices, "--log-every", 1,
              "--checkpoint-dir", folder, *flags)
    reports = [{name: value for name, value in e.items() if isinstance(value, float)} for e in run.all("step")]
    check(len(reports) == STEPS and reports[0], f"{artifact.name} on {devices}: {run.events}")
    return reports, tensors(newest(folder) / "model.safetensors")


def differences(found, wanted):
    """(the largest of a loss or norm, of a parameter), both relative."""
    losses = max(abs(f[name] - w[name]) / (abs(w[name]) + 0.01) for f, w in zip(found[0], wanted[0]) for name in w
                 if "loss" in name or "norm" in name)
    return losses, max(distance(found[1][name], wanted[1][name]) for name in wanted[1])


data = write_all(FOLDER / "data")
for name, precision in PROGRAMS:
    defines = [word for pair in SIZES.get(name, ()) for word in ("-D", pair)]
    artifact = for_gpu(program(name), name, "--precision", precision, *defines)
    most_loss, most_parameter = LIMITS[precision]
    wanted = train(artifact, "cpu")
    for library in ("none", "auto"):
        loss, parameter = differences(train(artifact, "cuda:0", "--library", library), wanted)
        print(f"{name}, {precision}, --library {library}: after {STEPS} steps a loss differs by {loss:.1e}, a parameter by {parameter:.1e}", flush=True)
        check(loss <= most_loss and parameter <= most_parameter, f"{name}, {precision}, on the GPU is not what it is on the CPU")
    loss, parameter = differences(train(artifact, "cuda:0", "--seed", 7), wanted)
    check(loss > most_loss or parameter > most_parameter, f"{name}: another seed goes unnoticed, so the comparison cannot fail")
finish()
