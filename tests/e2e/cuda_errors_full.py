"""Every call of the driver fails in turn, in a run of two steps and an evaluation: by itself, and as a GPU that is lost."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu_errors import *  # noqa: E402,F403

failing = Failing()
calls = failing.healthy_calls()
for error in (ANY, LOST):
    codes = [failing.check(call, error) for call in calls]
    print(f"{NAMES[error]}: {codes.count(1)} of {len(codes)} calls end the run", flush=True)
    check(codes.count(1) > len(codes) / 2, "most of them should")
finish()
