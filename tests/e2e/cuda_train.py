"""A GPU trains what the CPU trains: the fake driver (tests/support/fake_cuda.h) runs the artifact's kernels, in whatever order nobody has forbidden.

Curves near those of the CPU; equal bits on repeat, for any order of what runs at once, with four replicas too, killed and resumed too; checkpoints move
between both; a launch value; short last batches; evaluate and predict; the next batch is on its way before a step is waited for; nothing is made between steps."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from fake_gpu import *  # noqa: E402,F403

N, BATCH = 216, 32  # seven steps an epoch, the last of them of 24 examples: with four replicas, one has none
SEEDS = range(4)

data = write_data(n=N, n_test=72)
artifact = Artifact("launch rate = 100.0\n" + PROGRAM.replace("take(1000) | shuffle(1000)", f"take({N}) | shuffle({N})").replace("1e-3", "rate"), "net")
FLAGS = ("--data", data, "--log-every", 1, "--set", "rate=1e-3")


def train(folder, *flags, replicas=1, devices="cuda:0", epochs=2, **settings):
    return artifact.run("train", *FLAGS, "--epochs", epochs, "--global-batch", BATCH, "--replicas", replicas, "--checkpoint-dir", FOLDER / folder, *flags,
                        devices=devices, **settings)


def losses(run):
    return [e["loss"] for e in run.all("step")]


def check_near(what, found, wanted, relative=2e-3):
    check(len(found) == len(wanted), f"{what}: {len(found)} values, wanted {len(wanted)}")
    for i, (a, b) in enumerate(zip(found, wanted)):
        check(abs(a - b) <= relative * max(abs(a), abs(b), 1e-3), f"{what}: value {i} is {a}, wanted {b}")


def equal_bits_in_any_order():
    for replicas in (1, 4):
        on_cpu = train(f"cpu-v{replicas}", devices="cpu:1", replicas=replicas)
        wanted = None
        for seed in SEEDS:
            folder = f"v{replicas}-{seed}"
            run = train(folder, replicas=replicas, seed=seed, check="" if seed % 2 == 0 else "memory")
            check(run.one("end")["steps"] == 14, run.one("end"))
            check_near(f"V={replicas}: losses", losses(run), losses(on_cpu))
            found = bits(FOLDER / folder), losses(run)
            check(wanted is None or found == wanted, f"V={replicas}: order {seed} gives {found}, order 0 gave {wanted}")
            wanted = found
        check(losses(run)[-1] < 0.8 * losses(run)[0], f"it does not learn: {losses(run)}")
        print(f"V={replicas}: {len(SEEDS)} orders agree, and the CPU within 0.2 %", flush=True)
    without = [losses(train(f"without-{seed}", seed=seed, epochs=1, ignore_waits=1)) for seed in SEEDS]
    check(any(a != without[0] for a in without), "a wait that is missing shows in no order: the comparison cannot fail")
    train("other", "--seed", 1, replicas=4)
    check(bits(FOLDER / "other") != wanted[0], "another seed gives the same bits: the comparison cannot fail")


def checkpoints_move():
    """CPU, GPU, CPU by turns, and the GPU alone stopped and resumed."""
    whole = losses(train("whole", devices="cpu:1", epochs=3))
    found = []
    for devices, last in (("cpu:1", 5), ("cuda:0", 12), ("cpu:1", 17), ("cuda:0", 21)):
        found += losses(train("turns", "--resume", "--max-steps", last, devices=devices, epochs=3))
    check_near("moved between CPU and GPU", found, whole)


def resumed_is_equal():
    wanted = bits(FOLDER / "v1-0")
    train("resumed", "--max-steps", 3, seed=1)
    train("resumed", "--max-steps", 9, "--resume", seed=2)
    train("resumed", "--resume", seed=3)
    check(bits(FOLDER / "resumed") == wanted, "resumed twice, other bits")
    environment = {**os.environ, **artifact.environment()}
    flags = (*FLAGS, "--epochs", 2, "--global-batch", BATCH, "--checkpoint-dir", FOLDER / "killed", "--checkpoint-every", 2, "--devices", "cuda:0")
    process = subprocess.Popen(command("train", artifact.path, *flags), stdout=subprocess.PIPE, text=True, env=environment)
    for line in process.stdout:
        if '"number":6' in line:
            process.kill()
            break
    process.wait()
    process.stdout.close()
    stood = newest(FOLDER / "killed")
    check(stood is not None and stood.name != "step-14", f"the kill came too late, or too early: {stood}")
    train("killed", "--resume")
    check(bits(FOLDER / "killed") == wanted, f"killed after {stood.name} and resumed, other bits")


def evaluates_and_predicts():
    import numpy

    weights = ("--checkpoint-dir", FOLDER / "v1-0")
    for replicas in (1, 4):
        flags = ("--data", data, "--replicas", replicas, "--global-batch", BATCH, *weights)
        pair = [artifact.run("evaluate", *flags, devices=d).one("epoch") for d in ("cuda:0", "cpu:1")]
        check(pair[0]["examples"] == pair[1]["examples"] == 72, pair)
        check_near("evaluate", [pair[0]["loss"], pair[0]["accuracy"]], [pair[1]["loss"], pair[1]["accuracy"]], 1e-5)
    found = {}
    for devices in ("cuda:0", "cpu:1"):
        artifact.run("predict", "--input", data / "test-images", "--output", FOLDER / f"out-{devices}", *weights, devices=devices)
        found[devices] = {name: numpy.load(FOLDER / f"out-{devices}/{name}.npy") for name in ("label", "probability")}
    a, b = found["cuda:0"], found["cpu:1"]
    check(a["label"].shape == (72,) and (a["label"] == b["label"]).all(), "predicted labels differ")
    check(numpy.abs(a["probability"] - b["probability"]).max() < 1e-5, "predicted probabilities differ")


MAKES = re.compile(r"cu(MemAlloc|MemAllocHost|StreamCreate|EventCreate|StreamBeginCapture|GraphInstantiate|ModuleLoad|ModuleGetFunction|MemFree|Mem.*Free|"
                   r"GraphDestroy|EventDestroy|StreamDestroy)")


def overlaps():
    """The log of a run: all memory of the GPU is one allocation, of the size that is said; from the second step on nothing is made, and in the middle of an epoch the next batch is submitted behind a step's launch and
    before anything waits for it."""
    run = train("logged", log=FOLDER / "log", epochs=1, check="")
    calls = read_log(FOLDER / "log")
    allocations = [c.bytes() for c in calls if c.name == "cuMemAlloc_v2"]
    check(allocations == [run.one("start")["memory_bytes"]], f"allocated {allocations}, said {run.one('start')['memory_bytes']}")
    check(len([c for c in calls if c.name == "cuMemAllocHost_v2"]) == 1, "pinned memory is one allocation")
    launches = [i for i, c in enumerate(calls) if c.name == "cuGraphLaunch"]
    check(len(launches) >= 7, f"{len(launches)} launches of graphs in seven steps")
    steady = calls[launches[1]:launches[6]]
    made = [c for c in steady if MAKES.match(c.name)]
    check(not made, f"made between steps: {made}")
    for i in range(1, 5):
        between = calls[launches[i] + 1:launches[i + 1]]
        waits = [k for k, c in enumerate(between) if c.name in ("cuStreamQuery", "cuStreamSynchronize", "cuEventSynchronize")]
        copies = [k for k, c in enumerate(between) if c.name == "cuMemcpyHtoDAsync_v2" and c.bytes() >= BATCH * SIDE * SIDE]
        check(copies and waits and copies[0] < waits[-1], f"step {i + 1} is waited for before the next batch is copied:\n" + "\n".join(map(str, between)))


def main():
    equal_bits_in_any_order()
    checkpoints_move()
    resumed_is_equal()
    evaluates_and_predicts()
    overlaps()
    finish()


main()
