"""recurrent: the training step of examples/lstm.dt, an LSTM of 128 units over the 28 rows of an image, at batch 64 on two cores, beside PyTorch.

PyTorch's is bench/peers/recurrent_step.py: torch.nn.LSTM, Adam, two threads, batches ready in memory, the median step from call to the loss being read.
Ours is `dtrun bench`, the median step with a batch ready in memory, one replica on two cores. The same for sequences of 100 rows. Compiled is how long
`dtc compile` takes, all of the program for all instruction sets.
"""
import json
import re

import side_by_side as bench

STEPS = 100
BATCH = 64
EXAMPLE = bench.ROOT / "examples/lstm.dt"


def compiled(length):
    """(the artifact of sequences of that length, seconds)"""
    source, artifact = bench.ROOT / f"build/bench_lstm_{length}.dt", bench.ROOT / f"build/bench_lstm_{length}.dtx"
    source.write_text(re.sub(r"(?m)^data (.*\n +)?.*\n", "", EXAMPLE.read_text()).replace("[B, 28, 28]", f"[B, {length}, 28]")
                      .replace(" from train_set", "").replace(" from test_set", ""))
    return artifact, bench.run([bench.ROOT / "build/dtc", "compile", source, "--batch", BATCH, "-o", artifact]).seconds


def ours(artifact):
    command = [bench.ROOT / "build/dtrun", "bench", artifact, "--step", "train", "--devices", "cpu:1x2", "--global-batch", BATCH, "--steps", STEPS, "--json"]
    return 1000 * json.loads(bench.run(command).output)["median"]


def theirs(length):
    return bench.peer("recurrent_step.py", "--batch", BATCH, "--steps", STEPS, "--length", length)[0]["step_ms"]


def main():
    n = bench.n_pairs(__doc__)
    bench.head(f"LSTM step, 2 cores; {bench.counted(n)} of {STEPS} steps", "compiled, s", "ours, ms", "PyTorch, ms", "times as fast")
    for length in (28, 100):
        artifact, seconds = compiled(length)
        mine, peers, ratio = bench.pairs(n, lambda: ours(artifact), lambda: theirs(length))
        bench.row(f"{length} rows", f"{seconds:.2f}", f"{mine:.2f}", f"{peers:.2f}", f"{ratio:.2f}")


main()
