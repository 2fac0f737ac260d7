"""Every case of every row of the op table as an ONNX model, run by onnxruntime, against the row's NumPy expression. What no model can be made of, and what
onnxruntime has no kernel for, is named here; a case that is named in vain is a failure.

onnx_full.py [SEED [PART OF A CASE]]
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import numpy_test
import onnx
import onnxruntime
from onnx import TensorProto

ROOM = 16  # units of the last place more than the row's own: functions and sums are onnxruntime's, not ours

# Cases, as regular expressions, without a model: what is said of them.
NO_MODEL = {
    r"random_uniform\(": "ONNX has no operator for random_uniform|no input of the step says how many rows",
    r'precision="tf32"': "its factors are rounded to tf32",
    r'launch\(; name="(seed|steps_per_epoch|valid)"': "a model has no|no input of the step says how many rows",
    r"(constant|iota)\(; .*B": "no input of the step says how many rows",
    r"broadcast\(f32\[9\]; shape=\[B": "no input of the step says how many rows",
}
# What onnxruntime does not run, and what it says.
NOT_RUN = {
    r"erf\(f64": "Could not find an implementation for Erf",
    r"max_pool2d\(f32\[B, 7, 9, 0\]": "invalid channel count",
    r"sum_pool2d_gradient\(f32\[B, 3, 4, 0\]": "group must be > 0",
    r"iota\(; shape=\[4, 0\]": "it has the shape",  # an Expand of constants is dropped
}
# What it computes to so much of 1, and not of results that are smaller.
OF_ONE = {r"sigmoid\(f32": 2.0**-22, r"(sigmoid|sin|cos)\(f64": 1e-15}


def without_bf16(model):
    """Inputs and results of bf16, which NumPy lacks, become f32, with nodes that convert."""
    graph = model.graph
    for tensor in graph.input:
        if tensor.type.tensor_type.elem_type == TensorProto.BFLOAT16:
            graph.node.insert(0, onnx.helper.make_node("Cast", [f"{tensor.name}.f32"], [tensor.name], to=TensorProto.BFLOAT16))
            tensor.name += ".f32"
            tensor.type.tensor_type.elem_type = TensorProto.FLOAT
    for tensor in graph.output:
        if tensor.type.tensor_type.elem_type == TensorProto.BFLOAT16:
            graph.node.append(onnx.helper.make_node("Cast", [tensor.name], [f"{tensor.name}.f32"], to=TensorProto.FLOAT))
            tensor.name += ".f32"
            tensor.type.tensor_type.elem_type = TensorProto.FLOAT
    return model


def run(case, operands):
    onnx.checker.check_model(case["model"], full_check=True)
    model = without_bf16(onnx.load(case["model"]))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    given = [one for operand in operands.values() for one in (operand if isinstance(operand, list) else [operand])]
    described = [one for operand in case["operands"].values() for one in (operand if isinstance(operand, list) else [operand])]
    inputs = {}
    for tensor, array, about in zip(session.get_inputs(), given, described):
        inputs[tensor.name] = array.astype(numpy_test.DTYPES.get(about["dtype"], np.float32))
    (result,) = session.run(None, inputs)
    return result.astype(np.float64) if result.dtype.kind == "f" else result


def named_in(table, case):
    return [pattern for pattern in table if re.search(pattern, case["case"])]


def check(case, operands, used):
    """None, or what is wrong."""
    for pattern in named_in(NO_MODEL, case):
        if "no_model" in case and re.search(NO_MODEL[pattern], case["no_model"]):
            used[pattern] += 1
            return None
    if "no_model" in case:
        return case["no_model"]
    dtype = case["result"]["dtype"]
    case["ulp"] += ROOM if dtype in ("f32", "f64") else 1
    case["launch"].update(row_offset=0, rows=5, valid=5, global_batch=5, replicas=1)
    try:
        with np.errstate(all="ignore"):
            result = run(case, operands)
            if list(result.shape) != case["result"]["shape"]:
                raise ValueError(f"it has the shape {list(result.shape)}")
            wrong = numpy_test.compare(case, operands, result)
            if not wrong and (changed := numpy_test.planted(result)) is not None and not numpy_test.compare(case, operands, changed):
                return "a planted error went unnoticed"
            for pattern in named_in(OF_ONE, case) if wrong else []:
                used[pattern] += 1
                wrong = wrong if np.max(np.abs(result - numpy_test.evaluate(case, operands))) > OF_ONE[pattern] else None
    except Exception as error:
        wrong = str(error).splitlines()[0][:300]
    for pattern in named_in(NOT_RUN, case) if wrong else []:
        if re.search(NOT_RUN[pattern], wrong):
            used[pattern] += 1
            return None
    return wrong


def main():
    seed = sys.argv[1] if len(sys.argv) > 1 else "1"
    tool = pathlib.Path(os.environ.get("DT_TOOLS", "build/tests/tools")) / "ops_table"
    failures, n_cases, used = [], 0, collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        lines = subprocess.run([tool, folder, seed, "onnx"], check=True, capture_output=True, text=True).stdout.splitlines()
        for case in map(json.loads, lines):
            if len(sys.argv) > 2 and sys.argv[2] not in case["case"]:
                continue
            n_cases += 1
            operands = {name: [numpy_test.load(x) for x in one] if isinstance(one, list) else numpy_test.load(one) for name, one in case["operands"].items()}
            wrong = check(case, operands, used)
            if wrong:
                failures.append(f"{case['case']}: {wrong}")
    if len(sys.argv) <= 2:
        failures += [f"{pattern} is named in vain" for pattern in (*NO_MODEL, *NOT_RUN, *OF_ONE) if not used[pattern]]
    print("\n".join(failures))
    print(f"{n_cases} cases, {sum(used.values())} of them named here, {len(failures)} failures; seed {seed}")
    return 1 if failures or not n_cases else 0


if __name__ == "__main__":
    sys.exit(main())
