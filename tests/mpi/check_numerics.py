"""What made the first NaN is the same in any number of processes, and said once: the kernel, and the rows that another process than the first one holds."""
import os
import re
import sys

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import mpi
from training import FOLDER, check, compile_program, finish

artifact = compile_program("""
use nn, optimizers

data some = npy("x.npy") | batch(8)

model Line(x: f32[B, 4]) -> f32[B] { return dense(x, units: 1)[:, 0] }

step train(x: f32[B, 4]) from some {
    minimize(square(Line(x)), sgd(learning_rate: 0.01))
    report loss: mean(log(x))
}
""", "log")
# Of step 2: a row of the last of four replicas; and one of the second, beside one of the third, which is the first of its process.
for bad in ([27], [11, 17]):
    array = numpy.ones((96, 4), numpy.float32)
    array[32 + numpy.array(bad), 1] = -1
    numpy.save(FOLDER / "x.npy", array)
    said = set()
    for n in (1, 2, 4):
        done = mpi.run("openmpi", n, ["dtrun", "train", artifact, "--data", FOLDER, "--replicas", "4", "--devices", "cpu:1", "--check-numerics"])
        errors = re.findall(r"^dtrun: error: (.*)$", done.stderr, re.M)
        check(done.returncode == 1 and len(errors) == 1, f"{n} processes: exit status {done.returncode}\n{done.stderr}")
        said.update(errors)
    rows = (24, 31) if len(bad) == 1 else (8, 15)
    check(len(said) == 1 and re.match(rf"train step 2, rows {rows[0]} to {rows[1]}: kernel train_\w+ makes the first NaN \(element \d+\), of what stands in log.dt:", *said), said)

# Where processes share out the update, each looks at its own share of it. The last feature's weights get a gradient of 2 in step 2. The marks would
# be NaN, read as floats: they are before the sums in memory, of which the second process has none of the first ones.
shared = compile_program("""
use nn, optimizers

data some = npy("x.npy") | batch(8)

optimizer rooted(learning_rate: schedule = 0.01) {
    update (p, g) {
        state sum = zeros_like(p)
        sum := sum + sqrt(1 - abs(g))
        p := p - learning_rate * g * sum
    }
}

model Wide(x: f32[B, 1024]) -> f32[B] {
    param kernel: f32[1024, 1024] = constant(0.0)
    state marks: i64[1024, 1024] = -1
    return sum(x @ kernel, axis: 1) + 0 * f32(max(marks))
}

step train(x: f32[B, 1024]) from some { minimize(Wide(x), rooted()) }
""", "shared")
array = numpy.zeros((96, 1024), numpy.float32)
array[32:, 1023] = 2
numpy.save(FOLDER / "x.npy", array)
said = set()
for n, *flags in ((1,), (2, "--shard-optimizer")):
    done = mpi.run("openmpi", n, ["dtrun", "train", shared, "--data", FOLDER, "--replicas", "4", "--devices", "cpu:1", "--check-numerics", *flags])
    said.add((done.returncode, *re.findall(r"^dtrun: error: (.*)$", done.stderr, re.M)))
check(len(said) == 1 and "train step 2: kernel train_" in str(said) and "(element 1047552 of " in str(said), said)
finish()
