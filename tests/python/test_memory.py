"""Memory that runs out within a call: at one allocation of the extension's own after the other, once and for good. The call raises MemoryError, nothing is
lost or kept, and the same call then succeeds. tests/support/fail_memory.c makes them fail."""
import os
import pathlib
import subprocess
import sys

import numpy as np
from conftest import PROGRAM, examples

LIBRARY = pathlib.Path(os.environ["DT_BUILD"]) / "tests/libfail_memory.so"

SCRIPT = """
import ctypes, gc, shutil, sys
import dt, numpy as np
fail = ctypes.CDLL(sys.argv[1])
fail.fail_memory_at.argtypes = ctypes.c_size_t, ctypes.c_size_t, ctypes.c_long, ctypes.c_int
fail.fail_memory_live.restype = ctypes.c_long
ranges = [line.split()[0].split("-") for line in open("/proc/self/maps") if "_dt.abi3.so" in line]
module = int(ranges[0][0], 16), int(ranges[-1][1], 16)
fail.fail_memory_at(*module, -1, 0)
x, y = np.load("x.npy"), np.load("y.npy")
text = open("net.dt").read()
program = dt.compile(text, name="net.dt")
artifact = dt.compile(text, name="net.dt", output="net.dtx")

def make():
    return program.session(devices="cpu:1x1", data=".", checkpoints="ck")

def use(session):
    session.step("train", x=x[:16], y=y[:16])
    session.step("predict", x=np.asfortranarray(x[:16]))
    session["Net/dense/bias"] = np.zeros(16, np.float32)
    session["Net/dense/bias"].sum()
    session.launch["seed"] = 3
    list(session.train(epochs=1))
    session.evaluate()
    session.load(session.save())

def whole():
    shutil.rmtree("ck", ignore_errors=True)
    with make() as session:
        use(session)

def open_and_look():
    opened = dt.open("net.dtx")
    opened.info(), opened.variables, opened.steps, opened.summary()

calls = {"session": (whole, STRIDE), "open": (open_and_look, STRIDE), "compile": (lambda: dt.compile(text, name="net.dt"), 3 * STRIDE)}
for name, (call, stride) in calls.items():
    call(), gc.collect()
    n, n_failed = 0, 0
    for good in (0, 1):
        n = 0
        while True:
            gc.collect()
            before = fail.fail_memory_live()
            fail.fail_memory_at(*module, n, good)
            try:
                call()
                error = None
            except (dt.Error, MemoryError) as raised:
                error = type(raised)
            hit = fail.fail_memory_has()
            fail.fail_memory_at(*module, -1, 0)
            gc.collect()
            if not hit:
                break
            assert error is None or issubclass(error, MemoryError), (name, n, good, error)  # None: what was to be said is shorter
            after = fail.fail_memory_live()
            assert after <= before, (name, n, good, after - before, "blocks are kept")
            n_failed += error is not None
            n += stride
        assert error is None, (name, error)
    call()
    print(name, n_failed)
"""


def run(folder, stride):
    """How many of the allocations have failed, by call; one in `stride` is tried."""
    for name, array in zip("xy", examples()):
        np.save(folder / f"{name}.npy", array)
    (folder / "net.dt").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-c", SCRIPT.replace("STRIDE", str(stride)), LIBRARY], cwd=folder, capture_output=True, text=True, timeout=1500,
                          env={**os.environ, "LD_PRELOAD": str(LIBRARY), "PYTHONUNBUFFERED": "1"})
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return {name: int(n) for name, n in (line.split() for line in done.stdout.splitlines())}


def test_some_allocations_of_ours_fail(tmp_path):
    counts = run(tmp_path, 13)
    assert counts["session"] > 30 and counts["open"] > 10 and counts["compile"] > 5, counts
