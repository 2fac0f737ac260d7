"""A limit of memory (`ulimit -v`), from what a program is not even loaded under to what is enough: dtrun says before it trains what it needs and what it
may have, dtc that it got no memory. One line, and an exit status."""
import os
import re
import resource
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

MIB = 1 << 20
NOT_LOADED = 127  # what the dynamic loader says
data, program = write_data(), compile_program()
wide = compile_program(PROGRAM.replace("units: 32", "units: 20000"), "wide")


def limited(n_mib, *arguments):
    return subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=300,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (n_mib * MIB, n_mib * MIB)))


def one_error(done, n_mib, *words):
    errors = [line for line in done.stderr.splitlines() if line.startswith(("dtrun: error: ", "dtc: "))]
    check(done.returncode == 1 and len(errors) == 1 and any(word in errors[0] for word in words), f"{n_mib} MiB: {done.returncode} {done.stderr}")
    return errors[0]


# ---- training: nothing has begun where there is not enough ----
ends = set()
for n_mib in (*range(4, 64, 6), 128, 1024):
    done = limited(n_mib, "dtrun", "train", program, "--data", data, "--max-steps", 2, "--devices", "cpu:1x1", "--log-every", 1)
    ends.add(done.returncode)
    if done.returncode == 1:
        error = one_error(done, n_mib, "memory", f"`ulimit -v` allows {n_mib} MiB of memory")
        check("step " not in done.stdout, f"{n_mib} MiB: it had begun: {done.stdout}\n{error}")
    check(done.returncode in (0, 1, NOT_LOADED), f"{n_mib} MiB: {done.returncode} {done.stderr}")
check({0, 1} <= ends and done.returncode == 0, ends)

# ---- what a plan needs, and what there is ----
FLAGS = ("--data", data, "--max-steps", 1, "--devices", "cpu:1x1", "--checkpoint-dir", FOLDER / "ck")
error = one_error(limited(100, "dtrun", "train", wide, *FLAGS), 100, "the plan needs ")
numbers = re.search(r"the plan needs ([\d.]+) MiB of the machine's memory .* and ([\d.]+) MiB are free under `ulimit -v`; use fewer replicas", error)
check(numbers is not None and float(numbers[2]) < 100, error)
check(float(numbers[1]) > float(numbers[2]) and newest(FOLDER / "ck") is None, error)
enough = int(100 - float(numbers[2]) + float(numbers[1])) + 128  # what it has taken by then, the plan, and what threads and checkpoints take
check(limited(enough, "dtrun", "train", wide, *FLAGS).returncode == 0, f"{enough} MiB are not enough for a plan of {numbers[1]}")

# ---- rows of tables ----
RATINGS = """
use nn, optimizers
model Bag(item: i32[B]) -> f32[B, 32] {
    param table: f32[2000000, 32] = constant(0.5)
    return table[item]
}
data batches = npy("item.npy") | batch(4)
step train(item: i32[B]) from batches { minimize(square(sum(Bag(item), axis: 1)), sgd(0.1)) }
"""
np.save(FOLDER / "item.npy", np.arange(8, dtype=np.int32))
tables = limited(100, "dtrun", "train", compile_program(RATINGS, "tables"), "--data", FOLDER, "--max-steps", 1, "--devices", "cpu:1x1", "--rows")
check("; 244.1 MiB for the rows of tables that this process has)" in one_error(tables, 100, "the plan needs "), tables)

# ---- compiling: LLVM ends the process, which says so ----
ends = set()
for n_mib in (*range(120, 320, 20), 4096):
    done = limited(n_mib, "dtc", "compile", FOLDER / "net.dt", "-o", FOLDER / "limited.dtx")
    ends.add(done.returncode)
    if done.returncode == 1:
        one_error(done, n_mib, "out of memory")
        check(not list(FOLDER.glob("limited*")), f"{n_mib} MiB: something was written")
    check(done.returncode in (0, 1, NOT_LOADED), f"{n_mib} MiB: {done.returncode} {done.stderr}")
    (FOLDER / "limited.dtx").unlink(missing_ok=True)
check(done.returncode == 0, done.stderr)
finish()
