"""Each program of examples/ that trains: its first steps on the GPU beside the same steps on the CPU, with replicas that share the GPU,
by generated kernels alone and with the vendor's libraries.

Numbers are rounded in another order, and what an optimizer makes of a gradient that is nearly nothing may differ wholly; so a loss may differ by
2 %, and a parameter's tensor by 3 % of its size. The planted difference, another seed, is beyond both.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu import *  # noqa: E402,F403

STEPS, REPLICAS = (3, 2) if FAKE else (20, 2)
LOSS, PARAMETER = 0.02, 0.03
EXAMPLES = ["own_parts"] if FAKE else ["perceptron", "fashion_cnn", "resnet", "gan", "own_parts"]


def write_numbers(folder, n=2000):
    """A target that is a sum of the eight numbers before it."""
    numbers = random.Random(3)
    lines = ["a,b,c,d,e,f,g,h,target"]
    for _ in range(n):
        row = [numbers.uniform(-1, 1) for _ in range(8)]
        lines.append(",".join(f"{x:.6f}" for x in [*row, sum((i + 1) * x for i, x in enumerate(row)) / 8]))
    (folder / "numbers.csv").write_text("\n".join(lines) + "\n")


def train(artifact, devices, *flags):
    """The reports of each step, and the parameters at the end."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    run = Run("train", artifact, "--data", data, "--max-steps", STEPS, "--replicas", REPLICAS, "--devices", devices, "--log-every", 1,
              "--checkpoint-dir", folder, *flags)
    reports = [{name: value for name, value in e.items() if isinstance(value, float)} for e in run.all("step")]
    check(len(reports) == STEPS and reports[0], f"{artifact.name} on {devices}: {run.events}")
    return reports, tensors(newest(folder) / "model.safetensors")


def differences(found, wanted):
    """(the largest of a loss, of a parameter), both relative."""
    losses = max(abs(f[name] - w[name]) / (abs(w[name]) + 0.01) for f, w in zip(found[0], wanted[0]) for name in w if "loss" in name)
    return losses, max(distance(found[1][name], wanted[1][name]) for name in wanted[1])


data = write_images(FOLDER / "data")
write_numbers(data)
for name in EXAMPLES:
    artifact = for_gpu((pathlib.Path(os.environ["DT_SOURCE"]) / f"examples/{name}.dt").read_text(), name)
    wanted = train(artifact, "cpu")
    for library in ("none", "auto"):
        loss, parameter = differences(train(artifact, "cuda:0", "--library", library), wanted)
        print(f"{name}, --library {library}: after {STEPS} steps a loss differs by {loss:.1e}, a parameter by {parameter:.1e}", flush=True)
        check(loss <= LOSS and parameter <= PARAMETER, f"{name} on the GPU is not what it is on the CPU")
    loss, parameter = differences(train(artifact, "cuda:0", "--seed", 7), wanted)
    check(loss > LOSS or parameter > PARAMETER, f"{name}: another seed goes unnoticed, so the comparison cannot fail")
finish()
