"""Four replicas on one GPU: the same bits when repeated, and when killed and resumed; checkpoints go from the GPU to the CPU and back."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu import *  # noqa: E402,F403

N_REPEATS, N_KILLS = (2, 1) if FAKE else (4, 4)
FEW, MANY = (12, 12) if FAKE else (400, 50000)  # steps: for numbers that are only near each other; and at most
N_CHECKPOINTS = 6 if FAKE else 20

# Dropout, Adam and a state, so that random numbers, slots and states are part of the bits; 32 rows a step, the last batch of an epoch is short.
SMALL = PROGRAM.replace("units: 32", "units: 8").replace("take(1000)", "take(100)")
data = write_data(n=200, n_test=40)
artifact = for_gpu(SMALL if FAKE else PROGRAM, "net")


def flags(folder, steps, devices="cuda:0"):
    return ("--data", data, "--max-steps", steps, "--replicas", 4, "--global-batch", 32, "--checkpoint-every", steps // N_CHECKPOINTS, "--keep", 2,
            "--devices", devices, "--checkpoint-dir", folder)


def start(folder, steps):
    """A training whose first checkpoint is there, unless it has ended."""
    process = subprocess.Popen(command("train", artifact, *flags(folder, steps)), stdout=subprocess.DEVNULL)
    while newest(folder) is None and process.poll() is None:
        time.sleep(0.001)
    return process


def seconds_of(folder, steps):
    """(all of a training, the part behind its first checkpoint)"""
    began = time.monotonic()
    process = start(folder, steps)
    first = time.monotonic()
    check(process.wait() == 0, f"{folder}: exit status {process.returncode}")
    return time.monotonic() - began, time.monotonic() - first


def whole(folder, steps, *more):
    run = Run("train", artifact, *flags(FOLDER / folder, steps), *more)
    check(run.one("end")["steps"] == steps, f"{steps} steps were asked for: {run.one('end')}")
    return bits(FOLDER / folder)


# As many steps as it takes for most of a training to lie behind its first checkpoint: there it is killed.
steps = FEW
while True:
    seconds, window = seconds_of(FOLDER / f"steps{steps}", steps)
    if window > 0.6 * seconds or 4 * steps > MANY:
        break
    steps *= 4

wanted = bits(FOLDER / f"steps{steps}")
for i in range(1, N_REPEATS):
    check(whole(f"again{i}", steps) == wanted, "the same training gives other bits")
check(whole("other", steps, "--seed", 7) != wanted, "another seed gives the same bits: the comparison cannot fail")
print(f"V=4: {N_REPEATS} trainings of {steps} steps agree", flush=True)

moments, n_middle, n_kills = random.Random(int(os.environ.get("DT_SEED", 1))), 0, 0
while n_middle < N_KILLS and n_kills < 10 * N_KILLS:
    folder = FOLDER / f"killed{n_kills}"
    process = start(folder, steps)
    time.sleep(window * moments.uniform(0, 1))
    process.send_signal(signal.SIGKILL)
    process.wait()
    n_kills += 1
    stood = newest(folder)
    check(stood is not None, f"ended with {process.returncode} before its first checkpoint")
    is_middle = process.returncode == -signal.SIGKILL and int(stood.name[5:]) < steps
    n_middle += is_middle
    window *= 1 if is_middle else 0.7  # the machine has got faster
    Run("train", artifact, *flags(folder, steps), "--resume")
    check(bits(folder) == wanted, f"killed with {stood}, resumed: {bits(folder)}, uninterrupted: {wanted}")
check(n_middle == N_KILLS, f"only {n_middle} of {n_kills} kills fell between the first checkpoint and the end")
print(f"killed {n_middle} times in the middle, and resumed with the same bits", flush=True)

whole("few", FEW)
for first, second in (("cuda:0", "cpu"), ("cpu", "cuda:0")):
    folder = FOLDER / f"from-{first[:4]}"
    half = ("--max-steps", FEW // 2)
    Run("train", artifact, *flags(folder, FEW, first), *half)
    resumed = Run("train", artifact, *flags(folder, FEW, second), "--resume")
    check(resumed.one("start")["first_step"] == FEW // 2, f"{first} to {second}: {resumed.one('start')}")
    ends = tensors(newest(folder) / "model.safetensors"), tensors(newest(FOLDER / "few") / "model.safetensors")
    far = max(distance(ends[0][name], ends[1][name]) for name in ends[1] if "kernel" in name)
    print(f"half on {first}, half on {second}: weights differ by {far:.1e} of their size from those of the GPU alone", flush=True)
    check(far < 0.3, "that is another training")
finish()
