"""tests: the tests labelled `gpu`, one after the other, without CTest: a table of what passed, the log of each beside it.

What fails, does not fit into the time, or lacks something here, is a row too; the exit status is that of the worst.
"""
import concurrent.futures
import os
import re
import sys
import time

from ops import N_PARTS, parts
from report import FAKE, FOLDER, ROOT, SCRATCH, Failed, Report, emulate, run

report = Report("tests")
PASSED, failed = "passed", False

# With the fake one op a process, whose text is compiled for the CPU before.
FAKED_OPS = ["add", "reduce_sum"]


def attempt(part):
    """(what a part of the ops says, None or its failure)"""
    try:
        return run([os.environ["DT_GPU_OPS"]], environment=part), None
    except Failed as failure:
        return failure.log, failure


def ops_in_parts():
    with concurrent.futures.ThreadPoolExecutor(N_PARTS) as pool:
        outcomes = list(pool.map(attempt, parts()))
    log, failures = "".join(log for log, _ in outcomes), [failure for _, failure in outcomes if failure is not None]
    counts = re.findall(r"^(\d+) rows, (\d+) cases, (\d+) runs, (\d+) failures", log, re.MULTILINE)
    log += "{} rows, {} cases, {} runs, {} failures\n".format(*(sum(map(int, column)) for column in zip(*counts, [0] * 4)))
    if failures:
        raise Failed(f"{len(failures)} of {N_PARTS} parts: {failures[0]}", log=log)
    return log


def ops():
    if not FAKE:
        return ops_in_parts()
    said = ""
    for op in FAKED_OPS:
        text = SCRATCH / f"{op}.cu"
        run([os.environ["DT_GPU_OPS"]], environment={"OPS_ROW": op, "GPU_TEXT": str(text)})
        emulate(text)
        said += run([os.environ["DT_GPU_OPS"]], environment={"OPS_ROW": op})
    return said


tests = {"ops": ops, "nccl": lambda: run([os.environ["DT_GPU_NCCL"]])}
for path in sorted((ROOT / "tests/gpu").glob("*.py")):
    tests[path.stem] = lambda path=path: run([sys.executable, path])

report.table("test", "result", "seconds", "last line")
for name, test in tests.items():
    began = time.monotonic()
    try:
        log = test()
        result = PASSED
    except Failed as failure:
        log, skips = f"{failure.log}\n{failure}", str(failure).startswith("exit status 77: ")
        result, failed = "skipped" if skips else "FAILED", failed or not skips
    (FOLDER / f"tests_{name}.log").write_text(log)
    lines = [line for line in log.splitlines() if line.strip()]
    about = next((line for line in reversed(lines) if "rows," in line or "agree" in line or "differs" in line), lines[-1] if lines else "")
    report.row(name, result, f"{time.monotonic() - began:.0f}", about.strip())
sys.exit(failed)
