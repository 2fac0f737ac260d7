"""peak: how far steps of the examples are from what their arithmetic takes at the peak.

A step's arithmetic is what `dtc summary` counts of it: products and sums, gradients included, without what nobody reads, however it is computed. The peak
is that of the two cores, measured in the same run (`dtrun bench`): multiply-adds in registers, with the vectors of the level in use. So neither the
processor nor another program decides the last column: 1 is a step that does nothing but this arithmetic, at the peak; less is possible where a step does
without some of it. A round goes through all steps; figures are medians over rounds.
"""
import json
import re
import statistics
import tempfile

import side_by_side as bench

STEPS = 10
#        name                     example        its options                        replicas, and rows of each
CASES = (("CNN, batch 128", "fashion_cnn", (), 2, 64),
         ("ResNet, batch 64", "resnet", (), 2, 32),
         ("GPT, 32 x 128", "gpt", (), 2, 16),
         ("BERT, 8 x 512", "bert_mlm", (), 2, 4),
         ("BERT, 32 x 128", "bert_mlm", ("-D", "context=128", "-D", "predictions=20"), 2, 16),
         ("perceptron, batch 32", "perceptron", (), 1, 32))
UNITS = {"FLOP": 1, "kFLOP": 1e3, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12}


def arithmetic(program, options, batch):
    """Operations of a step of `batch` rows: those of what is read, where that is less than what is written."""
    text = bench.run([bench.ROOT / "build/dtc", "summary", program, *options]).output
    line = re.search(r"^step train.*\n  arithmetic (.*)$", text, re.MULTILINE)[1]
    said = (re.search(r"as written; (.* of what is read)", line) or re.match(r"(.*), as written", line))[1]
    numbers = {what: float(number.replace(",", "")) * UNITS[unit] for number, unit, what in re.findall(r"([\d.,]+) ([kMGT]?FLOP) (an example|a step)", said)}
    return numbers["an example"] * batch + numbers.get("a step", 0)


def measure(artifact, case):
    _, _, _, replicas, rows = case
    command = [bench.ROOT / "build/dtrun", "bench", artifact, "--replicas", replicas, "--global-batch", replicas * rows, "--devices", f"cpu:{replicas}x1",
               "--steps", STEPS, "--json"]
    return json.loads(bench.run(command).output)


def main():
    n = bench.n_pairs(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        artifacts = []
        for i, (_, example, options, _, rows) in enumerate(CASES):
            artifacts.append(f"{folder}/{i}.dtx")
            bench.run([bench.ROOT / "build/dtc", "compile", bench.ROOT / f"examples/{example}.dt", *options, "--batch", rows, "-o", artifacts[i]])
        rounds = [[measure(*case) for case in zip(artifacts, CASES)] for _ in range(n)]
    bench.head(f"steps beside their arithmetic at the peak; {bench.counted(n, 'round')} of {STEPS} steps", "cores", "a step, ms", "GFLOP",
               "peak of a core, GFLOP/s", "arithmetic at the peak, ms", "times that")
    for i, (name, example, options, replicas, rows) in enumerate(CASES):
        work = arithmetic(bench.ROOT / f"examples/{example}.dt", options, replicas * rows)
        steps = [(one["median"], one["peak_flops"], work / (one["cores"] * one["peak_flops"])) for one in (round[i] for round in rounds)]
        median, peak, least = (statistics.median(way) for way in zip(*steps))
        ratio = statistics.median(seconds / least for seconds, _, least in steps)
        bench.row(name, int(rounds[0][i]["cores"]), f"{1e3 * median:.2f}", f"{1e-9 * work:.2f}", f"{1e-9 * peak:.1f}", f"{1e3 * least:.2f}", f"{ratio:.2f}")


main()
