"""central: what tests of central storage (`--placement central`) share: programs that it is to train as mirrored devices do, and what a run says of the
memory of each device."""
import re

from layouts import DATA, left_by, predictions, said
from training import *

EXAMPLES = pathlib.Path(os.environ["DT_SOURCE"], "examples")
CENTRAL = ("--placement", "central")
NUMBER = "launch number = 3.0\n\ndata train_set"  # a report that is the same for all replicas, and of no kernel that the update needs
CLIPPED = "apply(adam(learning_rate: 1e-3), clip_by_global_norm(grad(objective(loss), params(Cnn)), 0.5))"

# By name: without states of the optimizer; clipped by the length of all gradients, then Adam, with dropout; batch statistics in many layers.
PROGRAMS = {
    "perceptron": (EXAMPLES / "perceptron.dt").read_text(),
    "cnn": (EXAMPLES / "fashion_cnn.dt").read_text().replace("filters: 64", "filters: 8").replace("filters: 128", "filters: 12").replace(
        "minimize(loss, adam(learning_rate: 1e-3))", CLIPPED).replace("data train_set", NUMBER).replace("mean(loss),", "mean(loss), number: last(number),"),
    "resnet": (EXAMPLES / "resnet.dt").read_text().replace("[32, 64, 128]", "[8, 16]").replace("blocks = 2", "blocks = 1"),
}
check(CLIPPED in PROGRAMS["cnn"] and "last(number)" in PROGRAMS["cnn"] and "[8, 16]" in PROGRAMS["resnet"], "the examples are others now")


def memory_of_devices(events):
    """By device: MiB in all, of variables, of the optimizer's states."""
    text = "\n".join(event["message"] for event in events if event["event"] == "note")
    found = re.findall(r"memory of (\S+): ([\d.]+) MiB, of which ([\d.]+) MiB variables, ([\d.]+) MiB optimizer's states", text)
    return {name: tuple(map(float, numbers)) for name, *numbers in found}


def notes(events):
    return " ".join(event["message"] for event in events if event["event"] == "note")
