"""dtc check: gradients that are slopes, replicas that agree, and both checks find what is planted."""
import contextlib
import os
import pathlib
import pty
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403


def run(text, *flags, name="net.dt", code=0):
    path = FOLDER / name
    path.write_text(text)
    done = subprocess.run(["dtc", "check", path, *flags], capture_output=True, text=True)
    check(done.returncode == code, f"{name} {flags}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


# Dense layers, a batch normalisation, a dropout, Adam: gradients and statistics that cross replicas, random numbers.
found = run(PROGRAM)
check("net.dt: types and shapes agree: 3 steps, " in found, found)
check("step train: gradients: 6 are the slopes" in found, found)
check(found.count("results and variables are those of one") == 3 and found.count("gradients: none") == 2, found)
found = run(PROGRAM, "--step", "train", "--rows", "5")
check("step train: gradients: 6 are the slopes" in found and "evaluate" not in found, found)

# Maxima, windows, strides and a border; several groups of gradients that share one y.
IMAGES = PROGRAM.replace("x = flatten(f32(image) / 255)", """
    x = conv2d(f32(image)[..., newaxis] / 255, filters: 4, kernel: 3, stride: 2, padding: same, activation: relu)
    x = flatten(max_pool2d(x, size: 2))""")
found = run(IMAGES, "--step", "train", name="images.dt")
check("gradients: 8 are the slopes" in found and "are those of one" in found, found)

# What a stop_gradient gives is held still where slopes are taken. In a loop it has no one value: said, and no error, for it may be wanted.
STOPPED = """
use nn, optimizers
model M(x: f32[B, 4]) -> f32[B] {
    return dense(x, units: 1)[:, 0]
}
fn bent(x: float[...]) { return stop_gradient(x * x * x) + x - stop_gradient(x) }
step train(x: f32[B, 4], y: f32[B]) {
    e = bent(M(x)) - y
    minimize(e * e, sgd(learning_rate: 0.1))
    report error: mean(e * e)
}
"""
found = run(STOPPED, name="stopped.dt")
check("step train: gradients: 2 are the slopes" in found, found)
LOOPED = STOPPED.replace("    e = bent(M(x)) - y", "    last, all = scan(fn(s, k) => [bent(s), none], M(x), length: 2)\n    e = last - y")
found = run(LOOPED, name="looped.dt")
check("step train: gradients: not known: M/dense/" in found and "a stop_gradient in a scan, which slopes know nothing of" in found, found)

# How many replicas there are is a launch value like another: what depends on it is the same however the rows are cut.
found = run(PROGRAM.replace("1e-3", "1e-3 * replicas"), "--step", "train", name="replicas.dt")
check("results and variables are those of one" in found, found)

# A gradient with respect to what a step is given; the second one of another input.
INPUTS = """
step s(t: f32[B], u: f32[B, 3]) {
    loss = sum(t * t * sum(u * u * u, axes: [1]))
    return d: grad(loss, t), e: grad(loss, u)
}
"""
found = run(INPUTS, name="inputs.dt")
check("step s: gradients: 2 are the slopes" in found and "2 results and variables are those of one" in found, found)

# The gradient of a bias before a batch normalisation is nothing but rounding, and Adam makes a step of it: that is no mistake of the compiler.
NOISE = PROGRAM.replace("x = dense(x, units: 32, activation: relu)", "x = dense(x, units: 32)").replace("adam(learning_rate: 1e-3)", "adam(1.0, epsilon: 1e-12)")
found = run(NOISE, "--step", "train", name="noise.dt")
check("results and variables are those of one" in found, found)

# A graph that gives something else on three replicas: what each of them has is added up once more.
PLANTED = """module w capacity 4
file 0 "w.dt"
step s = s @0:1:1
function s step (%0 x: f32[B] @0:1:1) {
  %1: f32 = constant(value=1.0, shape=[], dtype=f32) @0:2:1
  %2: f32 = all_reduce(%1) @0:2:1
  %3: f32[B] = broadcast(%2, shape=[B], dims=[]) @0:2:1
  %4: f32[B] = multiply(%0, %3) @0:2:1
  return y=%4
}
"""
found = run(PLANTED, name="planted.ir", code=1)
check("step s: 3 replicas: WRONG: y is" in found and "2 checks failed" in found, found)

# A result that is no number on replicas is wrong, though one that is right comes after it; where it is none in both there is nothing to say.
NOT_A_NUMBER = PLANTED.replace("""  return y=%4
""", """  %5: f32 = constant(value=2.0, shape=[], dtype=f32) @0:2:1
  %6: f32 = subtract(%5, %2) @0:2:1
  %7: f32 = log(%6) @0:2:1
  return bad=%7, y=%0
""")
found = run(NOT_A_NUMBER, name="not_a_number.ir", code=1)
check("step s: 3 replicas: WRONG: bad is inf apart" in found, found)
found = run("step s(x: f32[B]) { return y: log(x - 2.0), z: x }", name="nowhere.dt")
check("2 results and variables are those of one" in found, found)

# Where the data that is made up has no logarithm, its gradient is nothing to judge.
found = run("step s(x: f32[B]) { return g: grad(sum(log(x - 2.0)), x) }", name="nowhere.dt")
check("step s: gradients: not known: x, " in found and "not finite with the data that was made up" in found, found)

# A mean over pairs that divides by rows: of twice the rows it is twice as large, and so is its gradient. What a program divides itself is no mean.
PAIRS = """module pairs capacity 4
file 0 "pairs.dt"
step s = s report s/report aggregates(sum, sum) @0:1:1
function s step (%0 x: f32[B, 3] @0:1:1) {
  %1: f32[B, B] = matmul(%0, %0, transpose_b=true) @0:2:1
  %2: f32 = reduce_sum(%1, axes=[0, 1]) @0:3:1
  %3: i64 = launch(name="valid") @0:3:1
  %4: f32 = convert(%3, to=f32) @0:3:1
  %5: f32 = divide(%2, %4) @0:3:1
  %6: f64[B, B] = convert(%1, to=f64) @0:4:1
  %7: f64 = reduce_sum(%6, axes=[0, 1]) @0:4:1
  %8: i64 = launch(name="valid") @0:4:1
  return sum=%7, rows=%8, mean=%5
}
function s/report report (%0 sum: f64 @0:4:1, %1 rows: f64 @0:4:1) {
  %2: f64 = divide(%0, %1) @0:4:1
  return mean=%2
}
"""
found = run(PAIRS, name="pairs.ir", code=1)
check("step s: batch: WRONG: a mean, pairs.dt:3 is 0.5 apart" in found, found)
found = run(PAIRS.replace("divide(%2, %4) @0:3:1", "divide(%2, %4) @0:3:9").replace("convert(%3, to=f32) @0:3:1", "convert(%3, to=f32) @0:3:8")
            .replace('launch(name="valid") @0:3:1', 'launch(name="valid") @0:3:9'), name="pairs.ir", code=1)
check("step s: batch: WRONG: a mean of the report, pairs.dt:4 is 0.5 apart" in found, found)
found = run("""step s(p: f32[B, 4], q: f32[B, 4], w: f32[B]) {
    pairs = p @ q.T
    slope = grad(objective(pairs, weight: w), p)
    report mean: mean(pairs), weighted: mean(pairs, weight: w), rows: sum(pairs) / count(w)
    return rows: mean(pairs, axis: 1), of_rows: sum(pairs) / f32(count(w)), slope: slope
}""", name="means.dt")
check("step s: batch: " in found and "WRONG" not in found and "none" not in found.split("batch: ")[1], found)

# Of rows in another order results are in that order; positions, random numbers and the first of equals are not compared.
found = run("step s(x: f32[B, 3]) { return first: argmax(x, axis: 0), noise: uniform([B]), place: iota([B]), greatest: max(x, axis: 0) }", name="places.dt")
check("step s: batch: 1 means and results follow its rows" in found, found)

# What passes make of a step in its own types; too large a step is left out, and that is said.
found = run(PROGRAM, "--step", "train")
check("step train: passes: " in found and "those of the step as written" in found, found)
found = run(PROGRAM.replace("units: 32", "units: 40000"), "--step", "predict", name="large.dt")
check("step predict: passes: left out: the step is too large" in found and "failed" not in found, found)

# Progress is drawn on a terminal, and is gone in the end.
terminal, end = pty.openpty()
with subprocess.Popen(["dtc", "check", pathlib.Path(os.environ["DT_SOURCE"]) / "examples/gan.dt"], stdout=subprocess.PIPE, stderr=end) as process:
    os.close(end)
    drawn = b""
    with contextlib.suppress(OSError):  # how a terminal ends that nobody writes to
        while part := os.read(terminal, 4096):
            drawn += part
    check(process.wait() == 0, "dtc check examples/gan.dt")
check(b"\rchecking " in drawn and b" %\x1b[K" in drawn and drawn.endswith(b"\r\x1b[K"), drawn)

check("has no step nosuch" in run(PROGRAM, "--step", "nosuch", code=1), "--step nosuch")
check("unknown name" in run(PROGRAM.replace("flatten(", "flaten("), name="mistake.dt", code=1), "a mistake in the program")
check("--rows takes a number of rows" in run(PROGRAM, "--rows", "0", code=2), "--rows 0")
finish()
