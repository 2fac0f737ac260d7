"""Pipelines with compiled functions: map and filter in every position, resumed in mid-epoch, a csv, an index out of range in a map."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

data = write_data()
IMAGES = """
use nn, losses, optimizers

fn noisy(image: u8[12, 12], label: u8) {
    return f32(image) / 255 + uniform([12, 12], low: 0.0, high: 0.1), label
}
fn is_small(image: %s[12, 12], label: u8) { return label < 5 }

data train_set = idx("images.gz", "labels.gz") | %s | batch(32) | prefetch(3)

model Net(image: f32[B, 12, 12]) -> f32[B, 10] { return dense(flatten(image), units: 10) }

step train(image: f32[B, 12, 12], label: u8[B]) from train_set {
    logits = Net(image)
    loss   = sparse_categorical_crossentropy(label, logits)
    minimize(loss, sgd(learning_rate: 0.1))
    report loss: mean(loss), highest: max(label), examples: sum(label >= 0)
}
"""


def images(name, element_type, stages):
    return compile_program(IMAGES % (element_type, stages), name)


# 1100 examples, about half of them below 5
PIPELINES = (("after", "f32", "map(noisy) | filter(is_small) | shuffle(100)"), ("before", "u8", "shuffle(2000) | filter(is_small) | map(noisy)"),
             ("cached", "u8", "filter(is_small) | cache() | map(noisy) | shuffle(2000)"), ("repeated", "u8", "filter(is_small) | repeat(2) | skip(3) | map(noisy)"))
for name, element_type, stages in PIPELINES:
    program = images(name, element_type, stages)
    whole = Run("train", program, "--data", data, "--epochs", 3, "--checkpoint-dir", FOLDER / name)
    n = whole.one("start")["examples"]
    for e in whole.all("epoch"):
        check(e["highest"] == 4 and e["examples"] == n and 300 < n < 1400, f"{name}: {e}")
    check(whole.all("epoch")[2]["loss"] < whole.all("epoch")[0]["loss"], f"{name}: it does not learn")
    folder = FOLDER / f"{name} resumed"
    for steps in (5, 23, 31, 10 ** 6):
        Run("train", program, "--data", data, "--epochs", 3, "--max-steps", steps, "--checkpoint-dir", folder, "--resume")
    check(bits(folder) == bits(FOLDER / name), f"{name}: resumed in mid-epoch: other bits")
    check(bits(folder) != bits(FOLDER / PIPELINES[0][0]) or name == PIPELINES[0][0], "the comparison cannot fail")

# whole numbers of any size come through exactly; more examples than can be counted are as many as can be
program = compile_program(IMAGES % ("u8", "map(noisy) | take(9007199254740993) | repeat(1000000000000000001)"), "huge")
about = subprocess.run(["dtrun", "info", program], capture_output=True, text=True).stdout
check("take(9007199254740993) | repeat(1000000000000000001)" in about, about)
check(Run("train", program, "--data", data, "--max-steps", 40).one("end")["steps"] == 40, "a huge repeat")

# random numbers of a map differ from epoch to epoch, and with the seed
noise = images("noise", "u8", "map(noisy)")
still = [e["loss"] for e in Run("train", noise, "--data", data).all("epoch")]
check(still == [e["loss"] for e in Run("train", noise, "--data", data).all("epoch")], "the same run, another loss")
check(still != [e["loss"] for e in Run("train", noise, "--data", data, "--seed", 1).all("epoch")], "another seed, the same loss")

# an index out of range in a map: the line, the example, the value
program = compile_program(IMAGES.replace("return f32(image) / 255", "return f32(image) / 255 + f32(image[i32(label) + 8])") % ("u8", "map(noisy)"), "bad")
error = Run("train", program, "--data", data, expect=1).error
check(all(words in error for words in ("bad.dt:5:", "map() of data train_set, example", "is not within 0 to 11")), error)
ignored = Run("train", program, "--data", data, "--bad-index", "ignore", "--epochs", 40).error
counts = re.findall(r"train, epoch \d+: (\d+) indices were out of range", ignored)
check(len(counts) == 40 and len(set(counts)) == 1, f"as many in each epoch: {ignored}")

# csv
numbers = random.Random(3)
lines = ["a,b,c,y"] + [f"{a:.5f},{b:.5f},{c:.5f},{a - 2 * b + 0.5:.5f}" for a, b, c in ([numbers.gauss(0, 1) for _ in range(3)] for _ in range(2000))]
(data / "table.csv").write_text("\n".join(lines) + "\n")
table = compile_program("""
use nn, optimizers
data rows = csv("table.csv", target: -1) | shuffle(2000) | batch(20)
model Line(x: f32[B, 3]) -> f32[B] { return dense(x, units: 1)[:, 0] }
step train(x: f32[B, 3], y: f32[B]) from rows {
    e = Line(x) - y
    minimize(e * e, sgd(learning_rate: 0.05))
    report error: mean(e * e)
}
""", "table")
check(Run("train", table, "--data", data, "--epochs", 3).all("epoch")[-1]["error"] < 1e-6, "a line is not found")
(data / "table.csv").write_text("\n".join(lines[:500] + ["1,2,three,4"]) + "\n")
check("table.csv:501: column 3 (" in Run("train", table, "--data", data, expect=1).error, "a field that is no number")
finish()
