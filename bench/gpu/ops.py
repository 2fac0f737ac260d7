"""ops: every op of the table on the GPU, shared out among as many processes as this machine has cores: compiling takes most of the time.

What NVRTC makes is kept where dtc keeps its own, so that the second to ask for it, here or in another script, does not wait.
"""
import os
import pathlib

CORES = len(os.sched_getaffinity(0))
N_PARTS = min(CORES, 16)
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dtc/cuda"


def parts():
    """[what a part has in its environment]"""
    return [{"OPS_PART": f"{part}/{N_PARTS}", "GPU_CACHE": str(CACHE)} for part in range(N_PARTS)]
