"""gpu_errors: each call of the driver failing in turn: whatever fails, dtrun ends, says why in one line, and leaves nothing behind.

The fake driver (fake_cuda.h) makes call number n fail, and looks at what is left when the process ends."""
from fake_gpu import *

ANY, LOST, MEMORY = 999, 719, 2
NAMES = {ANY: "CUDA_ERROR_UNKNOWN", LOST: "CUDA_ERROR_LAUNCH_FAILED", MEMORY: "CUDA_ERROR_OUT_OF_MEMORY"}


class Failing:
    def __init__(self):
        self.data = write_data(n=64, n_test=32)
        text = PROGRAM.replace("take(1000) | shuffle(1000)", "take(64) | shuffle(64)")
        self.artifact = Artifact(text, "net")

    def train(self, **settings):
        shutil.rmtree(FOLDER / "failing", ignore_errors=True)
        return self.artifact.run("train", "--data", self.data, "--replicas", 2, "--global-batch", 32, "--checkpoint-dir", FOLDER / "failing", expect=None, check="", **settings)

    def healthy_calls(self):
        """The calls of a run in which nothing fails."""
        run = self.train(log=FOLDER / "healthy")
        check(run.code == 0, f"nothing fails, and yet: {run.error}")
        calls = read_log(FOLDER / "healthy")
        self.last_wait = max(c.number for c in calls if c.name == "cuMemcpyDtoHAsync_v2") + 1
        self.before_question = [c.number - 1 for c in calls if c.name == "cuMemGetInfo_v2"]
        return calls

    def is_harmless(self, call):
        """Is nothing wrong when it fails? How much memory is free is asked for a message alone, a graph is destroyed when its copy is there, and on the
        way out, when the last results are in the checkpoint, all is lost with the GPU anyway."""
        return call.name in ("cuMemGetInfo_v2", "cuGraphDestroy") or call.number in self.before_question or call.number > self.last_wait

    def check(self, call, error):
        """Call `call` of the healthy run fails with `error`."""
        run = self.train(fail=f"{call.number}={error}")
        what = f"{call} failing with {NAMES[error]}: exit {run.code}"
        check(run.code in (0, 1), f"{what}:\n{run.error}")
        lines = run.error.splitlines()
        if run.code == 0:
            check(self.is_harmless(call) and not lines, f"{what}:\n{run.error}")
        else:
            check(len(lines) == 1, f"{what}: more than a line, or none:\n{run.error}")
            check(NAMES[error] in lines[0] and (call.name in lines[0] or self.is_harmless(call)), f"{what}: {lines[0]}")
        return run.code
