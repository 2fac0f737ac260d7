"""Killed with SIGKILL and resumed, a run ends with the bits of one that was never stopped: at random moments, and inside a checkpoint's write.

The seed of the moments is printed; DT_SEED repeats it."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

N_RANDOM, N_INSIDE = 10, 10
seed = int(os.environ.get("DT_SEED", random.randrange(1 << 30)))
print("DT_SEED", seed, flush=True)
moments = random.Random(seed)

data, program = write_data(), compile_program()
FLAGS = ("--data", data, "--epochs", 5, "--replicas", 2, "--devices", "cpu:2", "--log-every", 1)


def flags(folder, every):
    return (*FLAGS, "--checkpoint-dir", folder, "--checkpoint-every", every)


def start(folder, every):
    return subprocess.Popen(command("train", program, *flags(folder, every), "--resume"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def unfinished(folder):
    try:
        return any(name.startswith(".unfinished-") for name in os.listdir(folder))
    except FileNotFoundError:
        return False


def end(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def losses(run):
    return {e["number"]: e["loss"] for e in run.all("step")}


def finish_and_compare(folder, every, what):
    run = Run("train", program, *flags(folder, every), "--resume")
    check(bits(folder) == wanted, f"{what}: {bits(folder)}, uninterrupted: {wanted}")
    check(all(whole[number] == loss for number, loss in losses(run).items()), f"{what}: a step's loss differs")
    check(run.one("end")["steps"] == n_steps, f"{what}: {run.one('end')}")
    for name, events in epochs.items():
        check(all(e[k] == events[e["epoch"]][k] for e in run.all("epoch", step=name) for k in ("steps", "examples", "loss", "accuracy")), f"{what}: an epoch's totals differ")
    return run


began = time.monotonic()
uninterrupted = Run("train", program, *flags(FOLDER / "whole", 10 ** 9))
seconds = time.monotonic() - began
wanted, whole, n_steps = bits(FOLDER / "whole"), losses(uninterrupted), uninterrupted.one("end")["steps"]
epochs = {name: {e["epoch"]: e for e in uninterrupted.all("epoch", step=name)} for name in ("train", "evaluate")}
check(n_steps == len(whole) == 5 * 16, f"{n_steps} steps")

other = Run("train", program, *flags(FOLDER / "other", 10 ** 9), "--seed", 7)
check(bits(FOLDER / "other") != wanted and other.code == 0, "another seed gives the same bits: the comparison cannot fail")

n_middle = 0
for i in range(N_RANDOM):
    folder = FOLDER / f"random{i}"
    process = start(folder, 3)
    time.sleep(moments.random() * seconds)
    end(process)
    stood = newest(folder)
    resumed = finish_and_compare(folder, 3, f"killed at random, {stood}")
    n_middle += 0 < resumed.one("start")["first_step"] < n_steps
print(f"{N_RANDOM} random moments, {n_middle} of them after a checkpoint and before the end", flush=True)

n_inside = 0
for attempt in range(40 * N_INSIDE):
    if n_inside == N_INSIDE:
        break
    folder = FOLDER / f"inside{attempt}"
    process, n_wanted = start(folder, 1), moments.randrange(1, n_steps)
    while process.poll() is None and (newest(folder) is None or int(newest(folder).name[5:]) < n_wanted):
        time.sleep(0.0005)
    while process.poll() is None and not unfinished(folder):
        pass
    time.sleep(moments.random() * 0.002)
    end(process)
    if not unfinished(folder):
        continue
    n_inside += 1
    stood = newest(folder)
    run = finish_and_compare(folder, 1, f"killed in a checkpoint's write after {stood}")
    check(not unfinished(folder), "the unfinished checkpoint is still there")
    shutil.rmtree(folder)
check(n_inside == N_INSIDE, f"only {n_inside} kills fell into a checkpoint's write")
print(f"{N_INSIDE} moments inside a checkpoint's write")

# each of these signals finishes the step, saves and ends
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    folder = FOLDER / f"signal{number}"
    process = subprocess.Popen(command("train", program, *flags(folder, 10 ** 9)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        if '"number":20' in line:
            process.send_signal(number)
            break
    events = [json.loads(line) for line in process.stdout]
    check(process.wait() == 128 + number and events[-1]["reason"] == "signal", f"signal {number}: {events[-1:]}")
    check(20 <= events[-1]["steps"] < n_steps and newest(folder).name == f"step-{events[-1]['steps']}", f"signal {number}: {events[-1]}")
    finish_and_compare(folder, 10 ** 9, f"signal {number}")
finish()
