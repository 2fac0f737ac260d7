"""dtrun train --log-dir of several processes: process 0 writes, all make the pictures, and what is written are the numbers of one process."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
from training import FOLDER, PROGRAM, Run, check, finish

PAINTER = """
fn draw(number: i64) { return normal([4]) }
data noise = range(20) | map(draw) | batch(32)
step sample(z: f32[B, 4]) from noise { return image: sigmoid(z)[:, :, newaxis] }
"""


def of(folder, *kinds):
    events = [json.loads(line) for line in (FOLDER / folder / "run.jsonl").read_text().splitlines()]
    return [{k: v for k, v in e.items() if k in ("event", "name", "number", "step", "loss", "accuracy", "png", "kernels")} for e in events if e["event"] in kinds]


case = layouts.Case("net", PROGRAM + PAINTER, 32)
flags = [*case.flags(4), "--epochs", 2, "--log-every", 5, "--log-histograms", 2]
Run("train", case.artifact, *flags, "--devices", "cpu:2x1", "--log-dir", FOLDER / "one")
layouts.mpirun("openmpi", 2, "train", case, *flags, "--devices", "cpu:1x1", "--log-dir", FOLDER / "two")
kinds = ("step", "epoch", "picture", "end")
check(of("one", *kinds) == of("two", *kinds), (of("one", *kinds), of("two", *kinds)))
check(len(of("two", "picture")) == 32 and len(of("two", "start")) == 1, of("two", "start"))
check(len(list((FOLDER / "two").iterdir())) == 2, list((FOLDER / "two").iterdir()))
sizes = [[path.stat().st_size for path in (FOLDER / folder).glob("events.*")] for folder in ("one", "two")]
check(sizes[0] == sizes[1] and len(sizes[1]) == 1, sizes)

finish()
