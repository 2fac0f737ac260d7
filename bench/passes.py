"""passes: what each part of the compiler is worth: a training step with that part switched off (`dtc compile -O no-…`), beside the step with all, one
step of each in turn (`dtrun bench --vs`).

Times as long without it, on one device with both cores, at the program's own batch; and how much more memory the CNN's training plans for, on one
core.
"""
import json
import re
import statistics

import side_by_side as bench

PROGRAMS = ("fashion_cnn", "perceptron", "resnet")
SECONDS, LEAST_STEPS, MOST_STEPS = 6, 3, 1000  # of one comparison


def compiled(program, *switches):
    path = bench.ROOT / f"build/bench_passes_{program}{''.join(switches)}.dtx"
    off = ["-O", ",".join(switches)] if switches else []
    bench.run([bench.ROOT / "build/dtc", "compile", bench.ROOT / f"examples/{program}.dt", *off, "-o", path])
    return path


def compare(program, other, steps):
    command = [bench.ROOT / "build/dtrun", "bench", program, "--vs", other, "--steps", steps, "--json"]
    return json.loads(bench.run(command).output)


def times_as_long(program, other):
    first = compare(program, other, LEAST_STEPS)
    steps = int(SECONDS / (first["median"] + first["vs"]["median"]))
    return compare(program, other, min(steps, MOST_STEPS))["ratio"] if steps > LEAST_STEPS else first["ratio"]


def memory(artifact):
    """Bytes that a training takes on one core, weights and all."""
    events, _ = bench.train(artifact, "--devices", "cpu:1x1", "--max-steps", "1")
    return events["start"]["memory_bytes"]


def main():
    n = bench.n_pairs(__doc__)
    usage = bench.run([bench.ROOT / "build/dtc", "compile", "--help"]).output
    switches = re.findall(r"^ +(no-\w+) +(?!on GPUs)\w", usage, re.MULTILINE)  # the others change nothing on a CPU
    whole = {program: compiled(program) for program in PROGRAMS}
    bench.head(f"times as long; {bench.counted(n, 'run')}", *PROGRAMS, "memory of fashion_cnn")
    for switch in switches:
        without = {program: compiled(program, switch) for program in PROGRAMS}
        ratios = [statistics.median(times_as_long(whole[program], without[program]) for _ in range(n)) for program in PROGRAMS]
        bench.row(f"`{switch}`", *(f"{ratio:.2f}" for ratio in ratios), f"{memory(without['fashion_cnn']) / memory(whole['fashion_cnn']):.2f}")


main()
