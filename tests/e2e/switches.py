"""Whatever -O switches off, training means the same: the losses of the first steps agree, and the artifact says what was switched off."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

# Poolings that drop a row (11 -> 5, 3 -> 1), a dropout, a state and slots: something for every pass. Not Adam, which makes full steps of gradients
# that are nothing but rounding.
IMAGES = PROGRAM.replace("""
    x = flatten(f32(image) / 255)
    x = dense(x, units: 32, activation: relu)
""", """
    x = f32(image)[..., newaxis] / 255
    x = max_pool2d(conv2d(x, filters: 8, kernel: 2, activation: relu), size: 2)
    x = max_pool2d(conv2d(x, filters: 16, kernel: 3, activation: relu), size: 2)
    x = dense(flatten(x), units: 32, activation: relu)
""").replace("adam(learning_rate: 1e-3)", "sgd(learning_rate: 1e-2, momentum: 0.9)")
check("max_pool2d" in IMAGES and "adam" not in IMAGES, "the shared program has changed")

N_STEPS, TOLERANCE = 3, 1e-6
data = write_data()
usage = subprocess.run(["dtc", "compile", "--help"], capture_output=True, text=True, check=True).stdout
switches = re.findall(r"^ +(no-\w+) ", usage, re.MULTILINE)
check({"no-shrink", "no-fuse", "no-simplify"} <= set(switches), f"dtc compile --help names {switches}")


def losses(*off):
    flags = ["-O", ",".join(off)] if off else []
    program = compile_program(IMAGES, "images", *flags)
    info = subprocess.run(["dtrun", "info", program], capture_output=True, text=True, check=True).stdout
    check(all(switch in info for switch in off), f"dtrun info does not say {flags}:\n{info}")
    steps = []
    for n in range(1, N_STEPS + 1):  # the mean over the first n steps
        run = Run("train", program, "--data", data, "--max-steps", n)
        steps.append(run.one("epoch", step="train")["loss"])
    return steps


wanted = losses()
for off in [[switch] for switch in switches] + [switches]:
    found = losses(*off)
    furthest = max(abs(a - b) for a, b in zip(found, wanted))
    check(furthest <= TOLERANCE, f"-O {','.join(off)}: losses {found}, with everything {wanted}")
    print(f"-O {','.join(off)}: {furthest:.1e}")
check(losses("no-shrink")[0] != losses()[1], "losses of different steps agree: the comparison cannot fail")
finish()
