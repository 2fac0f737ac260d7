"""--placement central: the first of several devices has the variables and updates them, the others compute, and the run leaves the bytes of mirrored
devices: weights, optimizer's states, reports, evaluation, predictions. Checkpoints of one go on in the other. What each device has is said."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from central import *  # noqa: E402,F403

BATCH, REPLICAS = 24, 4  # three steps an epoch, the last of 12 rows: two replicas have none


def train(name, folder, *flags, expect=0):
    return Run("train", FOLDER / f"{name}.dtx", "--data", DATA, "--global-batch", BATCH, "--replicas", REPLICAS, "--epochs", 2, "--seed", 3,
               "--checkpoint-dir", FOLDER / folder, *flags, expect=expect)


def leaves_what_mirrored_devices_leave(name, all_devices):
    compile_program(PROGRAMS[name], name, "--batch", str(BATCH))
    one = train(name, f"{name}-one", "--devices", "cpu:1x1")
    wanted = left_by(FOLDER / f"{name}-one"), said(one.events)
    for devices in all_devices:
        folder = f"{name}-{devices.replace(':', '-')}"
        run = train(name, folder, "--devices", devices, *CENTRAL)
        check((left_by(FOLDER / folder), said(run.events)) == wanted, f"{name} on {devices}: other bytes than mirrored devices leave")
    print(f"{name}: {', '.join(all_devices)} leave the bytes of one device", flush=True)
    return run


def goes_on(name):
    """Stopped in mid-epoch, and gone on with by the other placement, twice."""
    flags = (("--devices", "cpu:3", *CENTRAL, "--max-steps", 2), ("--devices", "cpu:2", "--resume", "--max-steps", 4), ("--devices", "cpu:2", *CENTRAL, "--resume"))
    for one in flags:
        train(name, f"{name}-turns", *one)
    check(left_by(FOLDER / f"{name}-turns") == left_by(FOLDER / f"{name}-one"), "central and mirrored devices in turn leave other bytes")


def evaluates_and_predicts(name):
    ends = []
    for i, devices in enumerate((("cpu:1x1",), ("cpu:3", *CENTRAL))):
        flags = (FOLDER / f"{name}.dtx", "--replicas", REPLICAS, "--checkpoint-dir", FOLDER / f"{name}-one", "--devices", *devices)
        evaluated = Run("evaluate", *flags, "--data", DATA, "--global-batch", BATCH)
        Run("predict", *flags, "--input", DATA / "t10k-images-idx3-ubyte", "--output", FOLDER / f"out-{i}")
        ends.append((said(evaluated.events), predictions(FOLDER / f"out-{i}")))
    check(ends[0] == ends[1] and len(ends[0][1]) == 2, "central storage evaluates or predicts otherwise")


def devices_say_what_they_have(run):
    memory = memory_of_devices(run.events)
    check(list(memory) == ["cpu:0", "cpu:1", "cpu:2"], memory)
    check(memory["cpu:0"][1] > 0 and memory["cpu:0"][2] > 0, memory)
    check(all(memory[d][1:] == (0, 0) and memory[d][0] > 0 for d in ("cpu:1", "cpu:2")), memory)
    check(abs(sum(m[0] for m in memory.values()) - run.one("start")["memory_bytes"] / 2**20) < 0.02, (memory, run.one("start")))
    check("cpu:0 has the variables and updates them; cpu:1 and cpu:2 compute, and read them where they are" in notes(run.events), run.events)


def only_the_first_updates():
    """By the timeline: which threads run kernels that run once."""
    path = FOLDER / "timeline.json"
    train("cnn", "cnn-timeline", "--devices", "cpu:3x1", *CENTRAL, "--max-steps", 2, "--timeline", path)
    events = json.loads(path.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    ran = {}
    for event in events:
        if event["ph"] in "BX" and "update" in event["name"] and (event["pid"], event["tid"]) in threads:
            ran.setdefault(threads[event["pid"], event["tid"]], set()).add(event["name"])
    check(ran and all("cpu:0" in name for name in ran), f"updates ran on {ran}")


def mistakes_are_said():
    run = train("cnn", "mistakes", "--devices", "cpu:6", *CENTRAL, expect=1)
    check("5 devices, beside the central one, for 4 replicas: each device holds at least one replica; use --replicas 5, or fewer --devices" in run.error, run.error)
    run = train("cnn", "mistakes", "--devices", "cpu:2", "--placement", "elsewhere", expect=2)
    check("--placement takes central or mirrored, not elsewhere" in run.error, run.error)
    run = train("cnn", "alone", "--devices", "cpu:1", *CENTRAL, "--max-steps", 1)
    check("there is one device, cpu:0, which has the variables and computes too" in notes(run.events), run.events)


def bench_has_it_too():
    done = subprocess.run(["dtrun", "bench", FOLDER / "cnn.dtx", "--replicas", "2", "--global-batch", "24", "--devices", "cpu:3", *CENTRAL, "--steps", "2"], capture_output=True, text=True)
    check(done.returncode == 0 and "memory of cpu:0: " in done.stdout and "update" in done.stdout, done)
    done = subprocess.run([*done.args, "--json"], capture_output=True, text=True)
    memory = json.loads(done.stdout)["memory"]
    check([one["device"] for one in memory] == ["cpu:0", "cpu:1", "cpu:2"] and memory[0]["optimizer"] > 0 == memory[1]["optimizer"], memory)


leaves_what_mirrored_devices_leave("perceptron", ("cpu:3",))
devices_say_what_they_have(leaves_what_mirrored_devices_leave("cnn", ("cpu:2", "cpu:3x2", "cpu:5", "cpu:3")))
leaves_what_mirrored_devices_leave("resnet", ("cpu:3",))
goes_on("cnn")
evaluates_and_predicts("cnn")
only_the_first_updates()
mistakes_are_said()
bench_has_it_too()
finish()
