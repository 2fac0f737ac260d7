"""What is wrong in data and in kernels is told of a GPU as of a CPU, by the fake driver (tests/support/fake_cuda.h): indices out of range, with their place in
the program; a kernel that goes where it must not, and one whose threads part at a barrier, with its name and lines when DT_CUDA_CHECK asks for it; one that
writes beside what it was given, when parts of the memory lie apart."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from fake_gpu import *  # noqa: E402,F403

# Labels are 0 to 9, and the network knows eight classes.
EIGHT = PROGRAM.replace("take(1000) | shuffle(1000)", "take(64) | shuffle(64)").replace("units: 10", "units: 8").replace("f32[B, 10]", "f32[B, 8]")
BAD_INDEX = re.compile(r".*eight.dt:\d+:\d+: train step 1, row \d+: index [89] is not within 0 to 7 \(and \d+ more out of range\); that is example \d+.*\n")
# At the head of a kernel: PLANTED says which mistake it makes.
MISTAKES = """
    const char *planted = getenv("PLANTED");
    if (planted != nullptr && *planted == 'a') ((volatile char *)(size_t)launch)[1 << 30] = 0;
    if (planted != nullptr && *planted == 'b' && threadIdx.x < 3) __syncthreads();
    if (planted != nullptr && *planted == 'c') ((volatile char *)(size_t)launch)[-1] = 0;
"""


def bad_indices(artifact, flags):
    for replicas in (1, 2):
        def train(devices, mode, **settings):
            return artifact.run("train", *flags, "--replicas", replicas, "--bad-index", mode, devices=devices, expect=None, **settings)

        on_cpu = train("cpu:1", "error")
        check(BAD_INDEX.fullmatch(on_cpu.error), on_cpu.error)
        for seed in range(4):
            run = train("cuda:0", "error", seed=seed)
            check(run.code == on_cpu.code == 1, f"indices out of range: {run.code}, on the CPU {on_cpu.code}")
            check(run.error == on_cpu.error, f"threads in order {seed}: {run.error}on the CPU: {on_cpu.error}")
        ignored = [train(devices, "ignore") for devices in ("cuda:0", "cpu:1")]
        check(ignored[0].code == 0 and "indices were out of range" in ignored[0].error and ignored[0].error == ignored[1].error, f"{ignored[0].error}, {ignored[1].error}")


def plant(artifact):
    """The kernel that makes the mistakes: the match of its text, up to the body."""
    text = emulated_kernels.text_of(artifact.path)
    kernel = re.search(r"\b(train_2_\w+)\([^)]*\) \{", text)
    artifact.kernels = FOLDER / "planted.so"
    emulated_kernels.compile_text(text[:kernel.end()] + MISTAKES + text[kernel.end():], artifact.kernels)
    return kernel


def kernels_gone_wrong(artifact, flags, kernel):
    for planted, error, why in (("a", "CUDA_ERROR_ILLEGAL_ADDRESS, 700", "touches"), ("b", "CUDA_ERROR_LAUNCH_FAILED, 719", "waits at a barrier that other threads never reach")):
        for asked in ("", "1"):
            environment = {**artifact.environment(), "PLANTED": planted, "DT_CUDA_CHECK": asked}
            run = Run("train", artifact.path, *flags, "--bad-index", "ignore", "--devices", "cuda:0", expect=1, environment=environment, seconds=60)
            told = [line for line in run.error.splitlines() if not line.startswith("fake driver")]
            check(why in run.error and len(told) == 1 and error in told[0] and "train step 1" in told[0], f"{planted}: {run.error}")
            check((f"{kernel[1]} (eight.dt:" in told[0]) == (asked == "1"), f"DT_CUDA_CHECK={asked}: {told[0]}")
            check(("DT_CUDA_CHECK=1" in told[0]) == (asked == ""), told[0])


def writes_beside(artifact, flags):
    """In front of the first launch values: nobody sees it where another part of the same allocation lies there."""
    for check_memory, code in (("memory", LEFT_BEHIND), ("", 0)):
        environment = {**artifact.environment(check=check_memory), "PLANTED": "c"}
        run = Run("train", artifact.path, *flags, "--bad-index", "ignore", "--max-steps", 1, "--devices", "cuda:0", expect=code, environment=environment, seconds=60)
        check(("there was a write in front of" in run.error) == (code != 0), f"DT_CUDA_CHECK={check_memory}: {run.error}")


def main():
    flags = ("--data", write_data(n=64, n_test=32), "--global-batch", 32)
    artifact = Artifact(EIGHT, "eight")
    bad_indices(artifact, flags)
    kernels_gone_wrong(artifact, flags, plant(artifact))
    writes_beside(artifact, flags)
    finish()


main()
