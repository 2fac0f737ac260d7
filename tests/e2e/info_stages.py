"""dtrun info --stages says what each stage has and for how long it is idle: of equal stages that is 1F1B's (S - 1) / m of m microbatches, with S - s
microbatches under way on stage s, however many there are; of others what they lack. Parameters are on one stage each, and memory of a microbatch does not depend on m."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import FOLDER, check, finish

LAYERS, WIDTH, BATCH = 8, 192, 16
PROGRAM = f"""
use nn, optimizers

layer part(x: f32[B, N]) {{
    return x + dense(dense(x, units: 2 * N, activation: tanh), units: N)
}}

model Net(x: f32[B, {WIDTH}]) -> f32[B, {WIDTH}] {{
    for i in 0..{LAYERS} {{ x = part(x) }}
    return x
}}

step train(x: f32[B, {WIDTH}]) {{
    minimize(mean(square(Net(x) - 1), axis: 1), adam(0.01))
}}
"""
ROW = re.compile(r"^ {6} +(\d+) +([\d.]+) % +([\d.]+) % +(\d+) +([\d.]+) MiB +([\d.]+) MiB +([\d.]+) MiB +([\d.]+) MiB$", re.MULTILINE)
PARAMETERS = 4 * LAYERS * (4 * WIDTH * WIDTH + 3 * WIDTH) / (1 << 20)

source, artifact = FOLDER / "net.dt", FOLDER / "net.dtx"
source.write_text(PROGRAM)
subprocess.run(["dtc", "compile", source, "--batch", str(BATCH), "-o", artifact], check=True, capture_output=True)


def info(*flags, expect=0):
    done = subprocess.run(["dtrun", "info", artifact, *map(str, flags)], capture_output=True, text=True)
    check(done.returncode == expect, f"{flags}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


sizes = {}
for stages in (2, 4, 8):
    for replicas in (8, 32):
        text = info("--processes", stages, "--stages", stages, "--replicas", replicas)
        found = ROW.findall(text)
        m = int(re.search(r"for the (\d+) microbatches of a process", text)[1])
        check(len(found) == stages and m >= replicas, text)
        most = max(float(row[1]) for row in found)
        for s, (number, share, idle, under_way, _, _, _, scratch) in enumerate(found):
            computes = (1 - (stages - 1) / (m + stages - 1)) * float(share) / most  # of the time, with 1F1B
            check(int(number) == s and min(stages - s, m) <= int(under_way) <= min(stages, stages - s + 1, m), f"{stages} stages, {m} microbatches: {found}")
            check(abs(float(idle) - 100 * (1 - computes)) < 5, f"stage {s} of {stages}, {m} microbatches: {100 * computes:.1f} % at work: {found}")
            check(sizes.setdefault((stages, s), scratch) == scratch, f"a microbatch of stage {s} takes {scratch} MiB, and of others {sizes[stages, s]}")
        check(100 / stages < 1.35 * min(float(row[1]) for row in found), f"{stages} stages: {found}")
        check(abs(sum(float(row[4]) for row in found) - PARAMETERS) < 0.1 * stages, f"{PARAMETERS} MiB of parameters: {found}")
        check(abs(sum(float(row[5]) for row in found) - 2 * PARAMETERS) < 0.1 * stages, f"Adam has two numbers a parameter: {found}")

quick, slow = (float(re.search(r"a step may take ([\d.e+-]+) s", info("--processes", 2, "--stages", 2, "--replicas", 8, "--flops", flops))[1])
               for flops in ("200G", "100M"))
check(abs(slow / quick - 2000) < 20, f"2000 times the arithmetic in a second: {quick} s, {slow} s")
late = float(re.search(r"and ([\d.e+-]+) s in which", info("--processes", 2, "--stages", 2, "--replicas", 8, "--flops", "1T", "--latency", "1m"))[1])
check(late >= 0.003, f"messages that take a millisecond each cost {late} s")
heavy = info("--processes", 2, "--stages", 2, "--replicas", 8, "--flops", "1T", "--bandwidth", "1M")
waits, crosses = float(re.search(r"and ([\d.e+-]+) s in which", heavy)[1]), 2 * BATCH * WIDTH * 4 / 1e6
check("of 16 rows, in 8 microbatches" in heavy, heavy)
check(abs(waits - crosses) < 0.1 * crosses, f"a microbatch's activations, forth and back, take {crosses} s at 1 MB/s, not {waits} s:\n{heavy}")

check("can be cut into at most 8 stages" in info("--processes", 9, "--stages", 9, expect=1), "there are 8 layers")
check("start 6, or a multiple" in info("--processes", 8, "--stages", 6, expect=1), "8 processes are no 6")
check("takes a number, 0 or more, not 3X" in info("--processes", 2, "--stages", 2, "--flops", "3X", expect=2), "X is no prefix")
finish()
