"""gpu_harness: how bench/gpu/bench.py asks another framework to train on a GPU, so that the two take turns.

A peer is one process that stays: compiling takes it longer than training. It says {"peer": NAME, "version": …} when it is there, then answers each
line {"model": "fashion_cnn", "batch": 128, "precision": "f32", "epochs": 3} of its input with one of its output:
    {"images_per_second": [of each epoch], "accuracy": on the test set, after all epochs that this training has had}
or {"error": …}. A training that was asked for before goes on: it is compiled once.
"""
import json
import sys
import time

from harness import read_idx

WARM_UP_STEPS = 20


def read_data(folder):
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return [read_idx(folder, f"{name}-ubyte") for name in names]


def n_steps(n_images, batch, warm_up):
    """Of an epoch, whose last images that fill no batch are left out; or of a warm-up."""
    whole = n_images // batch
    return min(WARM_UP_STEPS, whole) if warm_up else whole


def answer(data, trainings, make, wanted):
    key = (wanted["model"], wanted["batch"], wanted["precision"])
    if key not in trainings:
        trainings.clear()  # one holds the GPU's memory at a time
        trainings[key] = make(data, *key)
    rates = []
    for _ in range(wanted["epochs"]):
        start = time.perf_counter()
        images = trainings[key].epoch()
        rates.append(images / (time.perf_counter() - start))
    return {"images_per_second": rates, "accuracy": trainings[key].accuracy()}


def serve(peer, version, make):
    """make(data, model, batch, precision): an object with epoch() and accuracy(), compiled and warm."""
    data, trainings = read_data(sys.argv[1]), {}
    print(json.dumps({"peer": peer, "version": version}), flush=True)
    for line in sys.stdin:
        try:
            said = answer(data, trainings, make, json.loads(line))
        except Exception as error:  # whatever it is, the asker must know and go on
            said = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(said), flush=True)
