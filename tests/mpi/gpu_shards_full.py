"""More models in shards on GPUs, as in gpu_shards: sizes that shards cannot share evenly, values of 16 bits, what crosses once a segment, tables whose rows
or columns are split; and evaluations and predictions by processes that have some shards each."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu_processes import *  # noqa: E402,F403
from sharded import LOOKUP, PADDED, REPORTS, SPLIT  # noqa: E402

LESS = (("shuffle(90)", "take(44) | shuffle(44)"), ("take(50)", "take(30)"))


def over(k):
    return ["--shards-over", k]


def agrees(name, text):
    for long, short in LESS:
        text = text.replace(long, short)
    case = Case(name, text, batch=24)
    for n, k in ((2, 2), (4, 2), (4, 4)):
        case.agrees(n, n + k, *over(k))
    print(f"{name}: the bits of one GPU", flush=True)
    return case


def answers_agree(case):
    flags = ["--replicas", case.replicas, "--checkpoint-dir", FOLDER / f"{case.name}-one"]
    inputs = [*flags, "--input", DATA / "a.npy", "--input", DATA / "b.npy"]
    case.artifact.run("predict", *inputs, "--output", FOLDER / "predicted-one")
    case.start(2, "predict", *inputs, *over(2), "--output", FOLDER / "predicted-two")
    check(predictions(FOLDER / "predicted-one") == predictions(FOLDER / "predicted-two") != {}, f"{case.name}: other predictions")
    one, two = (said(done.events) for done in (case.artifact.run("evaluate", "--data", DATA, *flags), case.start(2, "evaluate", "--data", DATA, *flags, *over(2))))
    check(one == two != [], f"{case.name}: {one}, {two}")


def main():
    numbers = np.random.default_rng(1).integers(0, 20, size=(90, 3)).astype(np.int32)
    np.save(DATA / "i.npy", numbers)
    answers_agree(agrees("reports", REPORTS))
    for name, text in (("padded", PADDED), ("lookup", LOOKUP.replace("WRONG", "tanh(h)"))):
        agrees(name, text)
    agrees("halves", SPLIT.replace("return x + dense(h,", "return x + f32(sum(f16(h), axis: 1, keep: true)) * 0.01 + dense(h,"))
    for precision in ("bf16", "mixed_bf16"):
        agrees(precision, f"option precision: {precision}\n{SPLIT}")
    finish()


main()
