"""A label out of range stops a step that does nothing but minimize: there nobody reads the loss, and only its gradient looks the label up. One that also
reports the loss counts each bad label once. A label that is in range trains as it always did."""
import pathlib
import subprocess
import tempfile

TASK = """use nn, losses, optimizers
data table = csv("table.csv", target: -1) | batch(4)
model Net(x: f32[B, 1]) -> f32[B, 3] { return dense(x, units: 3) }
step train(x: f32[B, 1], y: f32[B]) from table {
    label = i32(y)
    logits = Net(x)
    OBJECTIVE
    minimize(loss, sgd(0.1))
    REPORT
}
"""
OBJECTIVES = {
    "crossentropy": "loss = sparse_categorical_crossentropy(label, logits)",
    "smooth": "loss = sparse_categorical_crossentropy(label, logits, label_smoothing: 0.1)",
    "places": "loss = sum(sparse_categorical_crossentropy(broadcast(label[:, newaxis], [B, 2]), broadcast(logits[:, newaxis], [B, 2, 3])), axis: 1)",
    "lookup": "loss = gather(logits, label, axis: 1)",
    "narrow": "loss = gather(logits[:, 1:], label - 1, axis: 1)",
    "rows": "loss = gather(broadcast(logits[:, :, newaxis], [B, 3, 2]), label, axis: 1)[:, 0]",
    "scan": "loss = scan(fn(s, c) => [s + gather(logits * c, label, axis: 1), none], zeros([B]), f32(iota([2])), axis: 0)[0]",
}


def train(folder, objective, report, labels, *options):
    (folder / "m.dt").write_text(TASK.replace("OBJECTIVE", objective).replace("REPORT", report))
    (folder / "table.csv").write_text("x,label\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    subprocess.run(["dtc", "compile", "m.dt", "-o", "m.dtx"], cwd=folder, check=True, timeout=60)
    return subprocess.run(["dtrun", "train", "m.dtx", "--data", ".", "--epochs", "1", *options], cwd=folder, capture_output=True, text=True, timeout=60)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for kind, objective in OBJECTIVES.items():
            for report in ("", "report loss: mean(loss)"):
                done = train(folder, objective, report, [1, 2, 1, 2, 2])
                assert done.returncode == 0 and "out of range" not in done.stderr, (kind, done)
                for label in (77, -1):
                    done = train(folder, objective, report, [1, 2, label, 2, 2])
                    assert done.returncode != 0 and "row 2" in done.stderr and "is not within 0 to" in done.stderr, (kind, report, done)
                done = train(folder, objective, report, [1, 77, 2, 77, 2], "--bad-index=ignore")
                n_lookups = 1 if kind != "scan" else 4 if report else 2 # in each iteration, forwards where that is read, and backwards
                assert done.returncode == 0 and f"{2 * n_lookups} indices were out of range" in done.stderr, (kind, report, done)


if __name__ == "__main__":
    main()
