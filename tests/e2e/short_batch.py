"""short_batch: the last batch of an epoch counts for what it is, on any number of replicas, those without a valid row too.

Not dropped, not over-weighted, not compiled for: one artifact runs full and short batches. The interpreter is given the valid rows and nothing else;
compiled code has memory for full batches and must not look at what is left in it.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import DATA, Checks, compile, dtrun, examples, execute, interpret, need_data, program

ROWS = 12  # of a full batch: 1, 2, 3 and 4 replicas share it evenly
checks = Checks()


def random_batch(n):
    random = np.random.default_rng(n)
    return {
        "input/x": random.normal(size=(n, 6, 6, 2)).astype(np.float32),
        "input/label": random.integers(0, 5, n).astype(np.int32),
        "input/weight": random.uniform(0.5, 2, n).astype(np.float32),
    }


def compare(what, found, expected):
    for name in expected:
        checks.near(f"{what}: {name}", found[name], expected[name], relative=2e-5, absolute=2e-6)


def against_interpreter():
    """Full batches and a short one after another, and a short one alone, down to a single row."""
    source = program("short_batch.dt")
    artifact = compile(source, batch=ROWS)
    for n in (2 * ROWS + 5, 11, 7, 4, 2, 1):
        for step in ("train", "by_examples", "by_weights", "evaluate"):
            given = random_batch(n)
            if step == "evaluate":
                del given["input/weight"]
            expected = interpret(source, step, given, rows=ROWS, seed=3)
            for v in (1, 2, 3, 4):
                found = execute(artifact, step, given, rows=ROWS, seed=3, replicas=v)
                compare(f"{step}, {n} rows, V={v}", found, expected)


def by_hand():
    """Numbers that need no oracle: sums of small integers are exact."""
    artifact = compile(program("one_weight.dt"), batch=128)
    x = np.arange(1, 6, dtype=np.float32)
    table = np.array([[1, 10, -3], [2, 10, 5], [6, 10, 4], [7, 10, 2], [9, 10, 12]], np.float32)
    for v in (1, 2, 3, 4):
        where = f"5 of 12 rows, V={v}"
        found = execute(artifact, "by_batch", {"input/x": x}, rows=12, replicas=v)
        checks.near(f"{where}, by batch", found["variable/Weight/w"], [-15 / 12], relative=1e-7)
        found = execute(artifact, "by_examples", {"input/x": x}, rows=12, replicas=v)
        checks.near(f"{where}, by examples", found["variable/Weight/w"], [-15 / 5], relative=1e-7)
        found = execute(artifact, "any_or_all", {"input/x": x}, rows=12, replicas=v)
        checks.near(f"{where}, none above 5 and all above 0", found["result/y"], np.full(5, 10), relative=0)
        found = execute(artifact, "normalize", {"input/x": table}, rows=12, replicas=v)
        checks.near(f"{where}, mean", found["variable/Statistics/batch_norm/moving_mean"], table.mean(axis=0), relative=1e-6)
        checks.near(f"{where}, variance", found["variable/Statistics/batch_norm/moving_variance"], table.var(axis=0), relative=1e-6)
        checks.near(f"{where}, normalised", found["result/y"], (table - table.mean(0)) / np.sqrt(table.var(0) + 1e-3), relative=1e-5, absolute=1e-6)


def an_epoch():
    """All 60,000 labels through dtrun: 468 full batches and one of 96; of 126 for three replicas, the last one of 24 rows in the first replica."""
    artifact = compile(program("one_weight.dt"), batch=128)
    label = examples(60000)["input/label"].astype(np.int64)
    for v, batch in ((1, 128), (2, 128), (3, 126), (4, 128)):
        events = dtrun("train", artifact, "--data", DATA, f"--replicas={v}", f"--global-batch={batch}", "--log-every=1")
        epoch = next(event for event in events if event["event"] == "epoch")
        steps = [event for event in events if event["event"] == "step"]
        n_steps, last = -(-60000 // batch), label[60000 // batch * batch :]
        checks.that(epoch["steps"] == n_steps and len(steps) == n_steps, f"V={v}: {epoch['steps']} steps, {n_steps} were to be")
        checks.that(epoch["examples"] == 60000 and epoch["rows"] == 60000, f"V={v}: {epoch['examples']} examples, {epoch['rows']} rows")
        checks.that(epoch["total"] == label.sum(), f"V={v}: labels add up to {epoch['total']}, not {label.sum()}")
        checks.that(epoch["mean"] == label.sum() / 60000, f"V={v}: mean {epoch['mean']}")
        checks.that((epoch["least"], epoch["greatest"]) == (label.min(), label.max()), f"V={v}: {epoch['least']} to {epoch['greatest']}")
        checks.that(steps[-1]["rows"] == len(last) and steps[-1]["total"] == last.sum(), f"V={v}: last step {steps[-1]}, labels {last.sum()}")
        checks.that((steps[-1]["least"], steps[-1]["greatest"]) == (last.min(), last.max()), f"V={v}: last step {steps[-1]}")


if __name__ == "__main__":
    against_interpreter()
    by_hand()
    need_data()
    an_epoch()
    checks.finish()
