"""Same program, data, seed and V: the same bits after 50 steps on any number of devices, twice; short batches leave replicas without a row."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

data, program = write_data(), compile_program()
n_runs = 0


def train(replicas, devices, *flags):
    global n_runs
    n_runs += 1
    folder = FOLDER / f"run{n_runs}"
    # 1000 examples in batches of 96: ten full ones and one of 40, which leaves the last replicas without a row
    run = Run("train", program, "--data", data, "--max-steps", 50, "--global-batch", 96, "--replicas", replicas, "--devices", f"cpu:{devices}",
              "--checkpoint-dir", folder, *flags)
    check(run.one("end")["steps"] == 50, "50 steps were asked for")
    return bits(folder), [e for e in run.all("epoch")]


for replicas, all_devices in ((4, (1, 2, 4)), (3, (1, 2, 3)), (8, (1, 2))):
    wanted, epochs = train(replicas, 1)
    losses = [e["loss"] for e in epochs]
    for devices in all_devices:
        found, epochs = train(replicas, devices)
        check(found == wanted, f"V={replicas}: D={devices} gives {found}, D=1 gave {wanted}")
        check([e["loss"] for e in epochs] == losses, f"V={replicas}: D={devices}: other losses")
    check(train(replicas, 1, "--seed", 1)[0] != wanted, "another seed gives the same bits: the comparison cannot fail")
    print(f"V={replicas}: D={', '.join(map(str, all_devices))} agree")
finish()
