"""Products that leave zeros out: the CNN's weights after three steps on real images are those of `-O no-zeros`, to the byte, on each instruction set, and
a loss that is no number is met at the same step."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

EXAMPLE = pathlib.Path(os.environ["DT_SOURCE"]) / "examples/fashion_cnn.dt"
DATA = os.environ.get("DT_DATA", "/usr/share/datasets/fashion-mnist")


def compiled(name, source, *flags):
    artifact = FOLDER / f"{name}.dtx"
    (FOLDER / f"{name}.dt").write_text(source)
    done = subprocess.run(["dtc", "compile", FOLDER / f"{name}.dt", *flags, "-o", artifact], capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)
    return artifact


def trained(artifact, steps, *flags):
    folder = FOLDER / f"{artifact.stem}{len(list(FOLDER.iterdir()))}"
    done = subprocess.run(["dtrun", "train", artifact, "--data", DATA, "--max-steps", str(steps), "--log-every", "1", "--log-format", "json",
                           "--checkpoint-dir", folder, *flags], capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)
    losses = [event["loss"] for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "step"]
    return losses, (folder / f"step-{steps}/model.safetensors").read_bytes()


text = EXAMPLE.read_text()
levels = ["x86-64-v3"] + ["x86-64-v4"] * ("avx512f" in pathlib.Path("/proc/cpuinfo").read_text())
some, all_of_them = compiled("some", text), compiled("all", text, "-O", "no-zeros")
for level in levels:
    for layout in (["--devices", "cpu:1x1"], ["--replicas", "2", "--devices", "cpu:2x1"]):
        check(trained(some, 3, "--level", level, *layout) == trained(all_of_them, 3, "--level", level, *layout), f"{level} {layout}: other bits")

wild = text.replace("learning_rate: 1e-3", "learning_rate: 1e30")
check(wild != text, "the example has another rate now")
found = [subprocess.run(["dtrun", "train", compiled(name, wild, *flags), "--data", DATA, "--max-steps", "4"], capture_output=True, text=True).stderr
         for name, *flags in (("wild",), ("wilder", "-O", "no-zeros"))]
check(found[0] == found[1] and "loss is not a number" in found[0], f"a loss that is no number: {found}")
finish()
