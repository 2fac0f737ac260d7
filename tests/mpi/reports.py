"""Vectors and matrices of an epoch, of the training and of evaluations that follow it, are the same in any number of processes, and said once."""
import json
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import mpi
from training import FOLDER, check, compile_program, finish

artifact = compile_program("""
use optimizers, metrics

data rows  = npy("x.npy", "label.npy") | batch(4)
data tests = npy("x.npy", "label.npy") | batch(4)

model Scale(x: f32[B, 4]) -> f32[B, 4] {
    param factor: f32[4] = ones()
    return x * factor
}

step train(x: f32[B, 4], label: i32[B]) from rows {
    y = Scale(x)
    minimize(square(y), sgd(learning_rate: 0.01))
    report loss: mean(square(y)), columns: mean(y, axis: 0), recall: class_recall(label, argmax(y), 4)
}

step check(x: f32[B, 4], label: i32[B]) from tests every 2 epochs {
    report confusion: confusion_matrix(label, argmax(Scale(x)), 4), most: max(Scale(x), axis: 0), auc: auc(label == 0, sigmoid(Scale(x)[:, 0]))
}
""", "reports")
random = numpy.random.default_rng(2)
numpy.save(FOLDER / "x.npy", random.standard_normal((103, 4), numpy.float32))
numpy.save(FOLDER / "label.npy", random.integers(0, 4, 103).astype(numpy.int32))
said = []
for n in (1, 2, 3):
    done = mpi.run("openmpi", n, ["dtrun", "train", artifact, "--data", FOLDER, "--replicas", "3", "--devices", "cpu:1", "--epochs", "2", "--log-format", "json"])
    check(done.returncode == 0, f"{n} processes: {done.stderr}")
    events = [event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "epoch"]
    said.append([{name: value for name, value in event.items() if "second" not in name and name != "data_wait"} for event in events])
    check([event["step"] for event in events] == ["train", "train", "check"], events)
check(said[0] == said[1] == said[2], said)
check(numpy.sum(said[0][2]["confusion"]) == 103 and len(said[0][0]["columns"]) == 4, said[0])
finish()
