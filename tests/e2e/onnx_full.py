"""Examples as ONNX models: onnx finds nothing wrong with them, and onnxruntime computes what compiled code does, within 1e-5, of one row and of several."""
import os
import sys

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))

import programs
from safetensors.numpy import save_file

IMAGE = {"image": ("u8", (28, 28))}
# program: the options that it is compiled with, a step that it has not itself, and inputs; integers are below the number given
EXAMPLES = {
    "perceptron": ({}, "", IMAGE),
    "fashion_cnn": ({}, "", IMAGE),
    "resnet": ({}, "step scores(image: u8[B, 28, 28]) { return logits: ResNet(image) }", IMAGE),
    "mobilenet": ({}, "step scores(image: u8[B, 28, 28]) { return logits: MobileNet(image) }", IMAGE),
    "vit": ({}, "step scores(image: u8[B, 28, 28]) { return logits: Vit(image) }", IMAGE),
    "lstm": ({}, "step scores(image: u8[B, 28, 28]) { return logits: Rows(image) }", IMAGE),
    "gru": ({}, "step scores(image: u8[B, 28, 28]) { return logits: Rows(image) }", IMAGE),
    "infonce": ({}, "", IMAGE),
    "mixup": ({}, "step scores(x: f32[B, 28, 28]) {\n    y = reverse(x, axis: 0)\n    return logits: Cnn(x + y), of_x: grad(sum(square(y) * x), x)\n}",
              {"x": ("f32", (28, 28))}),
    "gan": ({}, "step scores(z: f32[B, 64]) { return image: Generator(z) }", {"z": ("f32", (64,))}),
    "image_folder": ({}, "", {"image": ("u8", (28, 28, 3))}),
    "bert_mlm": ({"context": 64}, "step scores(token: i32[B, context], position: i32[B, 4]) { return logits: MaskedLm(token, token != 0, position) }",
                 {"token": ("i32", (64,), 30522), "position": ("i32", (4,), 64)}),
    "sentence_embedding": ({"length": 32}, "", {"token": ("i32", (32,), 30000)}),
}


def program_of(name, step):
    with open(f"{programs.SOURCE}/examples/{name}.dt") as file:
        return programs.write(file.read() + "\n" + step + "\n")


def draw(kind, source, rows):
    dtype, shape, *limit = kind
    if dtype == "f32":
        return source.standard_normal((rows, *shape), np.float32)
    return source.integers(0, limit[0] if limit else 256, (rows, *shape), {"u8": np.uint8, "i32": np.int32}[dtype])


def trained(path, initial, source):
    """Something that training might have made of initial values: no zeros, variances positive."""
    if initial.dtype.kind != "f":
        return initial
    noise = source.normal(0, 0.05, initial.shape)
    return (np.abs(initial * (1 + noise) + noise) if "variance" in path else initial * (1 + noise) + noise).astype(initial.dtype)


def compare(checks, name, options, own_step, inputs):
    program, step = program_of(name, own_step), "scores" if own_step else "predict"
    defines = [f"-D{key}={value}" for key, value in options.items()]
    artifact, model, weights = (programs.scratch(suffix) for suffix in (".dtx", ".onnx", ".safetensors"))
    source = np.random.default_rng(7)
    programs.run(["dtc", "compile", program, "-o", artifact, "--cpu=native", *defines])
    batches = [{f"input/{key}": draw(kind, source, rows) for key, kind in inputs.items()} for rows in (5, 1)]
    initial = programs.execute(artifact, step, batches[0], seed=3)
    variables = {key: trained(key, array, source) for key, array in initial.items() if key.startswith("variable/")}
    save_file({key.removeprefix("variable/"): array for key, array in variables.items()}, weights)
    programs.run(["dtc", "compile", "--emit=onnx", program, f"--step={step}", "--weights", weights, "-o", model, *defines])
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model)
    for given in batches:
        ours = programs.execute(artifact, step, {**given, **variables})
        theirs = session.run(None, {key.removeprefix("input/"): array for key, array in given.items()})
        for output, got in zip(session.get_outputs(), theirs):
            want = ours[f"result/{output.name}"]
            what = f"{name}, {len(want)} rows: {output.name}"
            checks.that(output.shape[0] == "B", f"{what} has the shape {output.shape}")
            print(f"{what} {want.dtype}{list(want.shape)} {float(np.max(np.abs(got.astype(np.float64) - want))):.1e} away, of {float(np.max(np.abs(want))):.3g}")
            checks.near(what, got, want, 1e-5, 1e-5)


checks = programs.Checks()
for name, (options, own_step, inputs) in EXAMPLES.items():
    if len(sys.argv) == 1 or name in sys.argv[1:]:
        checks.fails(name, lambda: compare(checks, name, options, own_step, inputs))
checks.finish()
