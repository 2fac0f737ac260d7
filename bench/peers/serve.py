"""serve: the answers of ONNX Runtime or PyTorch to images one at a time, on one thread, with weights that dtrun trained: how long each took, and the labels.

    serve.py --data FOLDER --framework onnxruntime | torch       FOLDER holds images.npy and model.safetensors

PyTorch is taken as it is fastest here: traced, frozen and optimised for inference. Times are those of the call alone, from array to arrays."""
import argparse
import json
import pathlib
import time

import numpy as np

WARM_UP = 100


def weights(folder):
    """Of examples/fashion_cnn.dt, in the layout of both: channels before pixels, and flattened in that order."""
    from safetensors.numpy import load_file
    tensors = load_file(folder / "model.safetensors")
    first, second = (tensors[f"Cnn/conv2d{n}/kernel"].transpose(3, 2, 0, 1).copy() for n in ("", "_1"))
    dense = tensors["Cnn/dense/kernel"].reshape(5, 5, 128, 10).transpose(2, 0, 1, 3).reshape(3200, 10).copy()
    return first, tensors["Cnn/conv2d/bias"], second, tensors["Cnn/conv2d_1/bias"], dense, tensors["Cnn/dense/bias"]


def onnxruntime_answer(folder):
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    names = "first", "first_bias", "second", "second_bias", "dense", "dense_bias", "white"
    constants = [numpy_helper.from_array(tensor, name) for tensor, name in zip((*weights(folder), np.float32(255)), names)]
    pool = dict(kernel_shape=[2, 2], strides=[2, 2])
    nodes = [helper.make_node(op, inputs.split(), [output], **options) for op, inputs, output, options in (
        ("Cast", "image", "floats", dict(to=TensorProto.FLOAT)), ("Div", "floats white", "x0", {}),
        ("Conv", "x0 first first_bias", "x1", {}), ("Relu", "x1", "x2", {}), ("MaxPool", "x2", "x3", pool),
        ("Conv", "x3 second second_bias", "x4", {}), ("Relu", "x4", "x5", {}), ("MaxPool", "x5", "x6", pool),
        ("Flatten", "x6", "x7", {}), ("Gemm", "x7 dense dense_bias", "logits", {}),
        ("ArgMax", "logits", "label", dict(axis=1, keepdims=0)), ("Softmax", "logits", "probability", {}))]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "cnn", [value("image", TensorProto.UINT8, [1, 1, 28, 28])],
                              [value("label", TensorProto.INT64, [1]), value("probability", TensorProto.FLOAT, [1, 10])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda image: session.run(None, {"image": image})[0]


def torch_answer(folder):
    import torch
    torch.set_num_threads(1)
    names = "0.weight", "0.bias", "3.weight", "3.bias", "7.weight", "7.bias"
    tensors = [torch.from_numpy(tensor) for tensor in weights(folder)]
    tensors[4] = tensors[4].T.contiguous()
    nn = torch.nn
    layers = nn.Sequential(nn.Conv2d(1, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 128, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3200, 10))
    layers.load_state_dict(dict(zip(names, tensors)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, image):
            logits = self.layers(image.float() / 255)
            return logits.argmax(1), logits.softmax(1)

    with torch.inference_mode():
        traced = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(Net().eval(), torch.zeros(1, 1, 28, 28, dtype=torch.uint8))))

    def answer(image):
        with torch.inference_mode():
            return traced(torch.from_numpy(image))[0].numpy()
    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--framework", choices=("onnxruntime", "torch"), required=True)
    options = parser.parse_args()
    answer = {"onnxruntime": onnxruntime_answer, "torch": torch_answer}[options.framework](options.data)
    images = np.load(options.data / "images.npy").reshape(-1, 1, 1, 28, 28)
    for image in images[:WARM_UP]:
        answer(image)
    times, labels = [], []
    for image in images:
        began = time.perf_counter()
        label = answer(image)
        times.append(1e6 * (time.perf_counter() - began))
        labels.append(int(label[0]))
    times.sort()
    print(json.dumps({"p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "labels": labels}))


if __name__ == "__main__":
    main()
