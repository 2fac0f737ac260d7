"""twins: BERT and GPT train as PyTorch does from the same weights on the same batches, without dropout; with it, any layout gives the same bits.
And BERT's encoder computes what KerasHub's does.

At reduced sizes; twins_full has those of the examples. The bounds are near what rounding does to a correct program (f32 from f64 in the golden files).
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import SOURCE, Checks, execute, program, run, scratch
from safetensors import safe_open
from safetensors.numpy import load_file
from twins import GOLDEN, Twin, compile_twin, transformers

BOUNDS = {1: 1e-6, 10: 2e-6, 50: 1e-5}
checks = Checks()


def differs_in_inputs_alone(name):
    """What the twin computes is the example's: in its order, line by line, but for the head, the data and the heads of steps."""
    with open(os.path.join(SOURCE, "examples", f"{name}.dt")) as file:
        rest = iter(file.read().splitlines())
    with open(os.path.join(SOURCE, "tests", "twins", f"{name}.dt")) as file:
        own = [line for line in file.read().splitlines() if line and not line.startswith(("#", "data ", "step "))]
    missing = [line for line in own if line not in rest]
    checks.that(not missing, f"{name}: the example has no such line: {missing[:1]}")


def follows_torch(name, twin):
    found = twin.losses()
    checks.curve(f"{name}, PyTorch", found, twin.golden["loss_f64"], BOUNDS)
    return found


def bits_of(folder):
    newest = max(os.listdir(folder), key=lambda name: int(name.removeprefix("step-")) if name.startswith("step-") else -1)
    return [open(os.path.join(folder, newest, file), "rb").read() for file in ("model.safetensors", "optimizer.safetensors")]


def same_bits_in_any_layout(name, twin):
    """With dropout; replicas on one device and two, and stopped half-way."""
    twin.artifact = compile_twin(twin.sizes)

    def trained(*options):
        folder = scratch("")
        for run_options in options:
            twin.train("--checkpoint-dir", folder, *run_options)
        return bits_of(folder)

    for replicas in (1, 2):
        flags = [f"--replicas={replicas}", "--seed=3"]
        wanted = trained([*flags, "--devices=cpu:1x1", "--max-steps=12"])
        for devices in ("cpu:1x2", "cpu:2")[:replicas]:
            checks.that(trained([*flags, f"--devices={devices}", "--max-steps=12"]) == wanted, f"{name}, V={replicas}: other bits on {devices}")
        folder = scratch("")
        twin.train("--checkpoint-dir", folder, *flags, "--devices=cpu:1x2", "--max-steps=7")
        run(["dtrun", "train", twin.artifact, "--data", twin.folder, "--resume", "--checkpoint-dir", folder, "--devices=cpu:1x1", "--max-steps=12"])
        checks.that(bits_of(folder) == wanted, f"{name}, V={replicas}: other bits when resumed")
    checks.that(trained(["--replicas=2", "--seed=4", "--max-steps=12"]) != wanted, f"{name}: the comparison cannot fail")


def gives_the_hidden_states_of_keras_hub():
    """And its encoder has as many parameters; the program has those of the head besides."""
    golden = os.path.join(GOLDEN, "bert_hidden.safetensors")
    expected = load_file(golden)
    with safe_open(golden, "numpy") as file:
        n_of_encoder = int(file.metadata()["parameters"])
    sizes = transformers.SIZES["bert"]
    given = {f"variable/{path}": array for path, array in transformers.scattered_weights("bert").items() if path.startswith("Bert/")}
    options = [f"-D{name}={sizes[name]}" for name in ("context", "width")]
    artifact = scratch(".dtx")
    run(["dtc", "compile", program("bert_hidden.dt"), "-o", artifact, "--batch=4", *options])
    found = execute(artifact, "hidden", {**given, "input/token": expected["token"]})
    for name in ("hidden", "pooled"):
        checks.near(f"KerasHub: {name}", found[f"result/{name}"], expected[name], relative=1e-5, absolute=1e-5)

    text = run(["dtc", "summary", os.path.join(SOURCE, "tests/twins/bert_mlm.dt")])
    counted = re.search(r"parameters +([\d,]+): ([\d,]+) trainable, ([\d,]+) frozen", text)
    total, _, frozen = (int(number.replace(",", "")) for number in counted.groups())
    head = 128 * 128 + 128 + 2 * 128 + 30522
    checks.that(total - head == n_of_encoder == 4385920 and frozen == 128 * 128 + 128, f"{counted[0]}; KerasHub's backbone: {n_of_encoder:,}")


for example in ("bert_mlm", "gpt"):
    differs_in_inputs_alone(example)
for name in ("bert", "gpt"):
    twin = Twin(name)
    follows_torch(name, twin)
    same_bits_in_any_layout(name, twin)
gives_the_hidden_states_of_keras_hub()
checks.finish()
