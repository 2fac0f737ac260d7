"""gpu_harness: how bench/gpu/bench.py asks another framework to train on a GPU, so that the two take turns.

A peer is one process that stays: compiling takes it longer than training. It says {"peer": NAME, "version": …} when it is there, then answers each
line {"model": "fashion_cnn", "batch": 128, "precision": "f32", "epochs": 3} of its input with one of its output:
    {"images_per_second": {way: [of each epoch]}, "accuracy": on the test set, after all epochs that the fastest way's training has had}
or {"error": …}. Where a framework has several ways of saying the same training, each is a training of its own when it is first asked for; the fastest
goes on when it is asked for again, and is not compiled anew. What the framework prints itself goes to stderr, so that nothing but answers stands
between answers.
"""
import json
import os
import statistics
import sys
import time

from harness import read_idx

WARM_UP_STEPS = 20

answers = os.fdopen(os.dup(1), "w")  # before the framework is imported, which may print too
os.dup2(2, 1)


def read_data(folder):
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return [read_idx(folder, f"{name}-ubyte") for name in names]


def n_steps(n_images, batch, warm_up):
    """Of an epoch, whose last images that fill no batch are left out; or of a warm-up."""
    whole = n_images // batch
    return min(WARM_UP_STEPS, whole) if warm_up else whole


def epoch_rates(training, n):
    """Images a second of n epochs."""
    rates = []
    for _ in range(n):
        start = time.perf_counter()
        images = training.epoch()
        rates.append(images / (time.perf_counter() - start))
    return rates


def answer(data, trainings, make, wanted):
    key = (wanted["model"], wanted["batch"], wanted["precision"])
    if key not in trainings:
        trainings.clear()  # what was asked for before would keep the GPU's memory
        trainings[key] = make(data, *key)
    ways = trainings[key]
    rates = {way: epoch_rates(training, wanted["epochs"]) for way, training in ways.items()}
    fastest = max(rates, key=lambda way: statistics.median(rates[way]))
    trainings[key] = {fastest: ways[fastest]}
    return {"images_per_second": rates, "accuracy": ways[fastest].accuracy()}


def serve(peer, version, make):
    """make(data, model, batch, precision): {way: an object with epoch() and accuracy(), compiled and warm}."""
    data, trainings = read_data(sys.argv[1]), {}
    print(json.dumps({"peer": peer, "version": version}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            said = answer(data, trainings, make, json.loads(line))
        except Exception as error:  # whatever it is, the asker must know and go on
            said = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(said), file=answers, flush=True)
