"""Ten thousand calls of each way to give data, and of what is called meanwhile, leave the process as large as the first thousand did."""
import gc
import os
import pathlib

import dt
import numpy as np
import pytest
from conftest import examples

N = int(os.environ.get("DT_CALLS", "10000"))


def resident():
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("path", ["arrays", "batches", "evaluate", "predict", "gather", "callbacks", "refused"])
def test_no_call_leaks(program, path):
    session = program.session(devices="cpu:1x1")
    x, y = (array[:16] for array in examples())

    def refused():
        with pytest.raises(TypeError):
            session.train((x, y.astype(np.int64))).run()
        with pytest.raises(KeyError):
            session.train(lambda: iter([{}["camera"]])).run()

    def gather():
        with session.gather("train") as report:
            session.step("train", x=x, y=y)
        return report["loss"]

    call = {"arrays": lambda: session.train((x, y), validation=(x, y)).run(),
            "batches": lambda: session.train([(x, y)], validation=lambda: iter([(x, y)])).run(),
            "evaluate": lambda: session.evaluate([{"x": x, "y": y}]),
            "predict": lambda: session.predict([x, x]),
            "gather": gather,
            "callbacks": lambda: session.train((x, y), callbacks=lambda moment: moment.stop()).run(),
            "refused": refused}[path]
    for _ in range(N // 10):
        call()
    before = resident()
    for _ in range(N):
        call()
    assert resident() - before < 200 * N, f"{(resident() - before) / N:.0f} bytes a call"
