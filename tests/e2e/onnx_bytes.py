"""An ONNX model as bytes, read here by the format of protocol buffers alone: operator set, inputs and results with B as a symbol, and each weight, to the
bit, of a safetensors file and of a checkpoint. tests/e2e/onnx_full.py runs models."""
import os
import shutil
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))

import programs
from safetensors.numpy import load_file, save_file


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """{number: [values]} of a message."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        assert key & 7 in (0, 2), f"wire type {key & 7}"
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        found.setdefault(key >> 3, []).append(value)
    return found


def info(data):
    """(name, number of the type, dimensions) of a ValueInfoProto."""
    one = fields(data)
    tensor = fields(fields(one[2][0])[1][0])
    dims = [fields(dim) for dim in fields(tensor[2][0]).get(1, [])]
    return one[1][0].decode(), tensor[1][0], [dim[2][0].decode() if 2 in dim else dim[1][0] for dim in dims]


checks = programs.Checks()
PROGRAM = f"{programs.SOURCE}/examples/perceptron.dt"
weights, model, folder = programs.scratch(".safetensors"), programs.scratch(".onnx"), programs.scratch(".checkpoint")
source = np.random.default_rng(1)
shapes = {"Perceptron/dense/kernel": (784, 128), "Perceptron/dense/bias": (128,), "Perceptron/dense_1/kernel": (128, 10), "Perceptron/dense_1/bias": (10,)}
save_file({path: source.standard_normal(shape, np.float32) for path, shape in shapes.items()}, weights)
os.mkdir(folder)
shutil.copy(weights, f"{folder}/model.safetensors")

for given in (weights, folder):
    programs.run(["dtc", "compile", "--emit=onnx", PROGRAM, "--weights", given, "-o", model])
    with open(model, "rb") as file:
        whole = fields(file.read())
    graph = fields(whole[7][0])
    sets = [fields(one) for one in whole[8]]
    checks.that(whole[1] == [8] and [(one[1], one[2]) for one in sets] == [([b""], [18])], f"IR {whole[1]}, operator sets {sets}")
    checks.that([info(one) for one in graph[11]] == [("image", 2, ["B", 28, 28])], f"inputs {graph[11]}")
    checks.that([info(one) for one in graph[12]] == [("label", 7, ["B"]), ("probability", 1, ["B", 10])], f"results {graph[12]}")
    tensors = {one[8][0].decode(): one for one in map(fields, graph[5])}
    for path, array in load_file(weights).items():
        one = tensors.get(path, {})
        checks.that(one.get(1) == list(array.shape) and one.get(2) == [1], f"{path}: dimensions {one.get(1)} of type {one.get(2)}")
        checks.that(one.get(9) == [array.tobytes()], f"{path} has other bytes")
    known = set(tensors) | {info(one)[0] for one in graph[11]}
    for node in map(fields, graph[1]):
        checks.that(set(map(bytes.decode, node[1])) <= known, f"{node[4]} reads {node[1]}, which is not made before it")
        known |= set(map(bytes.decode, node[2]))
    checks.that({"label", "probability"} <= known, f"the graph makes {known}")

checks.finish()
