"""Four replicas on one GPU: the same bits when repeated, and when killed and resumed; checkpoints go from the GPU to the CPU and back."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu import *  # noqa: E402,F403

STEPS, EVERY = (12, 2) if FAKE else (400, 20)
N_REPEATS, N_KILLS = (2, 1) if FAKE else (4, 4)

# Dropout, Adam and a state, so that random numbers, slots and states are part of the bits; 32 rows a step, the last batch of an epoch is short.
SMALL = PROGRAM.replace("units: 32", "units: 8").replace("take(1000)", "take(100)")
data = write_data(n=200, n_test=40)
artifact = for_gpu(SMALL if FAKE else PROGRAM, "net")
FLAGS = ("--data", data, "--max-steps", STEPS, "--replicas", 4, "--global-batch", 32, "--checkpoint-every", EVERY, "--keep", 2)


def flags(folder, devices="cuda:0"):
    return (*FLAGS, "--devices", devices, "--checkpoint-dir", folder)


def whole(folder, *more):
    run = Run("train", artifact, *flags(FOLDER / folder), *more)
    check(run.one("end")["steps"] == STEPS, f"{STEPS} steps were asked for: {run.one('end')}")
    return bits(FOLDER / folder)


began = time.monotonic()
wanted = whole("whole")
seconds = time.monotonic() - began
for i in range(1, N_REPEATS):
    check(whole(f"again{i}") == wanted, "the same training gives other bits")
check(whole("other", "--seed", 7) != wanted, "another seed gives the same bits: the comparison cannot fail")
print(f"V=4: {N_REPEATS} trainings of {STEPS} steps agree", flush=True)

moments, n_middle = random.Random(int(os.environ.get("DT_SEED", 1))), 0
for i in range(10 * N_KILLS):
    if n_middle == N_KILLS:
        break
    folder = FOLDER / f"killed{i}"
    process = subprocess.Popen(command("train", artifact, *flags(folder)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds * moments.uniform(0.3, 1))
    process.send_signal(signal.SIGKILL)
    process.wait()
    stood = newest(folder)
    n_middle += stood is not None and 0 < int(stood.name[5:]) < STEPS
    Run("train", artifact, *flags(folder), "--resume")
    check(bits(folder) == wanted, f"killed with {stood}, resumed: {bits(folder)}, uninterrupted: {wanted}")
check(n_middle == N_KILLS, f"only {n_middle} of {10 * N_KILLS} kills fell between the first checkpoint and the end")
print(f"killed {n_middle} times in the middle, and resumed with the same bits", flush=True)

for first, second in (("cuda:0", "cpu"), ("cpu", "cuda:0")):
    folder = FOLDER / f"from-{first[:4]}"
    half = ("--max-steps", STEPS // 2)
    Run("train", artifact, *flags(folder, first), *half)
    resumed = Run("train", artifact, *flags(folder, second), "--resume")
    check(resumed.one("start")["first_step"] == STEPS // 2, f"{first} to {second}: {resumed.one('start')}")
    ends = tensors(newest(folder) / "model.safetensors"), tensors(newest(FOLDER / "whole") / "model.safetensors")
    far = max(distance(ends[0][name], ends[1][name]) for name in ends[1] if "kernel" in name)
    print(f"half on {first}, half on {second}: weights differ by {far:.1e} of their size from those of the GPU alone", flush=True)
    check(far < 0.3, "that is another training")
finish()
