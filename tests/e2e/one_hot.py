"""one_hot of a label out of range is an index out of range: in a step, with the row and the value; in a map, with the example. With --bad-index=ignore
its row is 0. A label that is in range gives what it always gave."""
import pathlib
import subprocess
import tempfile

STEP = """use nn, losses, optimizers
data table = csv("table.csv", target: -1) | batch(4)
model Net(x: f32[B, 1]) -> f32[B, 3] { return dense(x, units: 3) }
step train(x: f32[B, 1], label: f32[B]) from table {
    hot = one_hot(i32(label), 3)
    minimize(categorical_crossentropy(hot, Net(x)), sgd())
    report sum: sum(hot, axis: 0)
}
"""
MAP = """fn both(x: f32[1], label: f32) { return x, one_hot(i32(label), 3) }
data table = csv("table.csv", target: -1) | map(both) | batch(4)
step evaluate(x: f32[B, 1], hot: f32[B, 3]) from table { report sum: sum(hot, axis: 0), x: mean(x) }
"""


def run(folder, command, program, labels, *options):
    folder = pathlib.Path(folder)
    (folder / "m.dt").write_text(program)
    (folder / "table.csv").write_text("x,label\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    subprocess.run(["dtc", "compile", "m.dt", "-o", "m.dtx"], cwd=folder, check=True, timeout=60)
    return subprocess.run(["dtrun", command, "m.dtx", "--data", ".", *options], cwd=folder, capture_output=True, text=True, timeout=60)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for command, program in (("train", STEP), ("evaluate", MAP)):
            done = run(folder, command, program, [0, 1, 2, 2, 0])
            assert done.returncode == 0 and "sum [2 1 2]" in done.stdout, done
        for label in (3, -1):
            done = run(folder, "train", STEP, [0, 1, label, 2, 0])
            assert done.returncode != 0 and f"m.dt:5:11: train step 1, row 2: index {label} is not within 0 to 2" in done.stderr, done
            done = run(folder, "train", STEP, [0, 1, label, 2, 0], "--bad-index=ignore")
            assert done.returncode == 0 and "sum [2 1 1]" in done.stdout, done
            done = run(folder, "evaluate", MAP, [0, 1, label, 2, 0])
            assert done.returncode != 0 and f"example 2: index {label} is not within 0 to 2" in done.stderr, done


if __name__ == "__main__":
    main()
