"""Weights from elsewhere, and for elsewhere: `--init` with a `--map`, and `dtrun export`, which is the same map backwards. What NumPy makes of the
tensors is what is loaded; what is exported loads again to the same bits; whatever does not fit is said with both shapes, the rule and what to do."""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403
from safetensors.numpy import load_file, save_file  # noqa: E402

MODEL = """
use nn

model Net(x: f32[B, 6, 6, 2]) {
    state count: i32 = 0
    x = conv2d(x, filters: 4, kernel: 3) as conv
    x = flatten(x)
    for i in 0..2 { x = dense(x, units: 64, use_bias: false) as layer }
    x = dense(x, units: 3)
    return x + f32(count)
}

step predict(x: f32[B, 6, 6, 2]) { return y: Net(x) }
"""
numbers = numpy.random.default_rng(1)


def normal(*shape):
    return numbers.normal(size=shape).astype(numpy.float32)


# ---- loading ----
program = compile_program(MODEL)
x = normal(5, 6, 6, 2)
numpy.save(FOLDER / "x.npy", x)
theirs = {"conv.weight": normal(4, 2, 3, 3).astype(numpy.float16), "conv.bias": normal(4).astype(numpy.float64), "stack.weight": normal(128, 64),
          "head.bias": normal(3), "columns.first": normal(64, 1), "columns.rest": normal(64, 2), "step": numpy.array(7, numpy.int64),
          "extra.a.b": normal(2), "spare": normal(2, 2)}
names = """
# PyTorch's kernels; two layers that are one tensor there, a layer that is two; a scale; other types
conv.weight           -> Net/conv/kernel       : o i h w -> h w i o
conv.bias             -> Net/conv/bias         : scale=0.5
stack.weight[0:64, :] -> Net/layer_0/kernel    : o (c h w) -> (h w c) o, c=4, h=4
stack.weight[64:, :]  -> Net/layer_1/kernel    : o i -> i o
head.bias             -> Net/dense/bias
columns.first         -> Net/dense/kernel[:, :1]
columns.rest          -> Net/dense/kernel[:, 1:3]
step                  -> Net/count
extra.**              -> none
"""
wanted = {
    "Net/conv/kernel": theirs["conv.weight"].astype(numpy.float32).transpose(2, 3, 1, 0),
    "Net/conv/bias": (theirs["conv.bias"] * 0.5).astype(numpy.float32),
    "Net/layer_0/kernel": theirs["stack.weight"][:64].reshape(64, 4, 4, 4).transpose(2, 3, 1, 0).reshape(64, 64),
    "Net/layer_1/kernel": theirs["stack.weight"][64:].T,
    "Net/dense/bias": theirs["head.bias"],
    "Net/dense/kernel": numpy.concatenate([theirs["columns.first"], theirs["columns.rest"]], axis=1),
    "Net/count": numpy.array(7, numpy.int32),
}
wanted = {name: numpy.array(value, order="C") for name, value in wanted.items()}
save_file(theirs, FOLDER / "theirs.safetensors")
save_file(wanted, FOLDER / "ours.safetensors")
(FOLDER / "names.txt").write_text(names)


def predict(file, *flags, expect=0, program=program):
    return Run("predict", program, "--input", FOLDER / "x.npy", "--output", FOLDER / "out", "--init", file, *flags, expect=expect)


def result(*arguments):
    predict(*arguments)
    return numpy.load(FOLDER / "out/y.npy")


by_map = ("--map", FOLDER / "names.txt")
run = predict(FOLDER / "theirs.safetensors", *by_map)
y = numpy.load(FOLDER / "out/y.npy")
check(numpy.array_equal(y, result(FOLDER / "ours.safetensors")), "by the map other weights are loaded than NumPy makes of them")
table = run.one("note")["message"]
for line in ("loaded    conv.weight f16[4, 2, 3, 3] -> Net/conv/kernel f32[3, 3, 2, 4] : o i h w -> h w i o",
             "loaded    conv.bias f64[4] -> Net/conv/bias f32[4], scale=0.5",
             "loaded    stack.weight f32[128, 64][64:128, :] -> Net/layer_1/kernel f32[64, 64] : o i -> i o",
             "loaded    columns.rest f32[64, 2] -> Net/dense/kernel f32[64, 3][:, 1:3]",
             "loaded    step i64 -> Net/count i32",
             "not used  extra.a.b f32[2], as the map says",
             "not used  spare f32[2, 2]: no rule names it"):
    check(line in table, f"{line}\nis not in\n{table}")
check(not predict(FOLDER / "ours.safetensors").all("note"), "a file that fits exactly needs no word")
numpy.testing.assert_array_equal(result(FOLDER / "theirs.safetensors", *by_map, "--replicas", 2, "--devices", "cpu:2"), y)


# ---- exporting ----
def export(file, output, *flags, expect=0):
    done = subprocess.run(["dtrun", "export", file, "-o", FOLDER / output, *map(str, flags)], capture_output=True, text=True)
    check(done.returncode == expect, done.stderr)
    return done.stdout + done.stderr


said = export(FOLDER / "ours.safetensors", "back.safetensors", *by_map)
back = load_file(FOLDER / "back.safetensors")
check(set(back) == set(theirs) - {"extra.a.b", "spare"}, back.keys())
for name, value in back.items():
    numpy.testing.assert_array_equal(value, theirs[name].astype(value.dtype), name)
check("written   stack.weight f32[128, 64][0:64, :] -> Net/layer_0/kernel f32[64, 64] : o (c h w)" in said, said)
check(numpy.array_equal(result(FOLDER / "back.safetensors", *by_map), y), "what is exported is loaded as something else")
export(FOLDER / "ours.safetensors", "same.safetensors")
same = load_file(FOLDER / "same.safetensors")
check(same.keys() == wanted.keys() and all(numpy.array_equal(same[name], wanted[name]) for name in wanted), "without a map names and shapes stay")


# ---- what does not fit ----
def load_wrong(change, *parts, tensors=None, flags=(), expect=1):
    """Loads with the map that `change` makes of the good one, or with other tensors; all of `parts` must be said."""
    (FOLDER / "wrong.txt").write_text(change(names))
    save_file({**theirs, **(tensors or {})}, FOLDER / "wrong.safetensors")
    error = predict(FOLDER / "wrong.safetensors", "--map", FOLDER / "wrong.txt", *flags, expect=expect).error
    for part in parts:
        check(part in error, f"{part}\nis not in\n{error}")


def without(line):
    return lambda text: "\n".join(rule for rule in text.splitlines() if not rule.startswith(line)) + "\n"


def instead(old, new):
    return lambda text: text.replace(old, new)


same_map = instead("", "")
load_wrong(without("head"), "does not give all variables of the program, 1 is missing; give it a rule in a --map, or keep initial values with --allow-missing",
           "missing   Net/dense/bias f32[3]", "not used  head.bias f32[3]: no rule names it")
load_wrong(without("head"), "missing   Net/dense/bias f32[3]: keeps its initial value", flags=["--allow-missing"], expect=0)
load_wrong(lambda text: without("head")(text) + "none -> Net/dense/bias\n", "Net/dense/bias f32[3]: keeps its initial value, as the map says", expect=0)
load_wrong(instead(": o i h w -> h w i o", ""),
           "wrong.txt:3: conv.weight f16[4, 2, 3, 3] does not fit Net/conv/kernel f32[3, 3, 2, 4]; it would with ` : o i h w -> h w i o` at the end")
load_wrong(instead("[64:, :] ", "[64:200, :] "), "wrong.txt:6: stack.weight ends at 128 in dimension 0: the range 64:200 is not in it")
load_wrong(instead("[64:, :]", "[64:]"), "wrong.txt:6: stack.weight has 2 dimensions, stack.weight[64:] names 1 range")
load_wrong(instead("[:, 1:3]", "[:, 0:2]"), "Net/dense/kernel is given twice: by columns.first (line 8) and by columns.rest (line 9)")
load_wrong(without("columns.first"), "of Net/dense/kernel f32[64, 3] only 128 of 192 elements are given")
load_wrong(lambda text: text + "spare -> Net/conv/bias\n", "wrong.txt:12: spare f32[2, 2] does not fit Net/conv/bias f32[4]")
load_wrong(same_map, "step f32 cannot become Net/count i32", tensors={"step": normal()})
load_wrong(same_map, "step to Net/count: 3000000000 is no i32", tensors={"step": numpy.array(3000000000)})
load_wrong(lambda text: text + "nothing.{i} -> Net/nothing/{i}\n", "warning: wrong.txt:12: ".replace("wrong.txt", str(FOLDER / "wrong.txt")),
           "has no tensor that is nothing.{i}", expect=0)
load_wrong(same_map, "Net/dense/bias: 2 of its elements are infinite or no number (NaN)", tensors={"head.bias": numpy.array([1, numpy.inf, numpy.nan], numpy.float32)}, expect=0)
load_wrong(instead("conv.bias  ", "conv bias  "), "wrong.txt:4:6: expected `->` after conv, found `bias`")
load_wrong(lambda text: "", "wrong.txt: holds no rule")

error = predict(FOLDER / "theirs.safetensors", expect=1).error
check("does not give all variables of the program, 7 are missing" in error and "not used  spare f32[2, 2]: there is none of this name" in error, error)
content = (FOLDER / "theirs.safetensors").read_bytes()
(FOLDER / "cut.safetensors").write_bytes(content[:-5])
check("cut.safetensors: " in predict(FOLDER / "cut.safetensors", *by_map, expect=1).error, "a file that is cut")
check("nowhere.txt" in predict(FOLDER / "theirs.safetensors", "--map", FOLDER / "nowhere.txt", expect=1).error, "a map that is not there")
check("--map and --allow-missing need --init" in Run("predict", program, "--map", FOLDER / "names.txt", expect=2).error, "--map alone")

before = (FOLDER / "back.safetensors").read_bytes()
(FOLDER / "few.txt").write_text("fc -> Net/dense/kernel\n")
said = export(FOLDER / "ours.safetensors", "back.safetensors", "--map", FOLDER / "few.txt", expect=1)
check("some of ours would be in no tensor of the new file" in said and "not used  Net/conv/bias f32[4]: no rule names it" in said, said)
(FOLDER / "gap.txt").write_text("fc[0:4] -> Net/conv/bias\nfc[5:8] -> Net/dense/bias\n")
said = export(FOLDER / "ours.safetensors", "back.safetensors", "--map", FOLDER / "gap.txt", "--allow-missing", expect=1)
check("gap.txt:1: of fc f32[8] only 7 of 8 elements are given" in said, said)
check((FOLDER / "back.safetensors").read_bytes() == before, "a file is touched by an export that failed")
export(FOLDER / "ours.safetensors", "few.safetensors", "--map", FOLDER / "few.txt", "--allow-missing")
check(list(load_file(FOLDER / "few.safetensors")) == ["fc"], "left out")
finish()
