"""300 random graphs (tests/support/random_programs.py) as ONNX models: onnx finds nothing wrong with them, and onnxruntime computes what the interpreter does.
Of graphs that are trained it is one result, which no update is needed for.

random_graphs_onnx_full.py [FIRST COUNT]
"""
import collections
import os
import re
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import save_file

sys.path[:0] = [os.path.join(os.environ["DT_SOURCE"], "tests", folder) for folder in ("support", "tools")]

import programs
from random_graphs import away, by_rounding, initial_parameters, shape_of
from random_programs import ROWS, Graph, draw_inputs
from random_values import HEAD

# What is no model, and what onnxruntime has no kernel for.
MAY_FAIL = ("ONNX has no operator for random_uniform", "its factors are rounded to tf32", "no input of the step says how many rows",
            "Could not find an implementation for")


def differences(seed):
    graph = Graph(seed)
    key = next(iter(f"result/{name}" for name in graph.results)) if graph.trained else None
    text = graph.text(only=key)
    program, model, weights = programs.write(HEAD + text), programs.scratch(".onnx"), programs.scratch(".safetensors")
    initial = {path: array for path, array in initial_parameters([graph], seed).items() if re.search(rf"param {path.split('/')[-1]}\b", text)}
    # extremes over NaN are onnxruntime's own, and infinities make NaN, as other edges may
    inputs = {key: np.where(np.isfinite(array), array, 300).astype(array.dtype) for key, array in draw_inputs(seed, ROWS).items()}
    given = {**inputs, **initial}
    want = programs.interpret(program, f"g{seed}", given, rows=ROWS)
    save_file({path.removeprefix("variable/"): np.asarray(array) for path, array in initial.items()} or {"none": np.zeros(1)}, weights)
    programs.run(["dtc", "compile", "--emit=onnx", program, f"--step=g{seed}", f"--batch={ROWS}", "--weights", weights, "-o", model])
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options)
    got = session.run(None, {one.name: given[f"input/{one.name}"] for one in session.get_inputs()})
    for output, result in zip(session.get_outputs(), got):
        value = graph.results[output.name]
        expected = shape_of(f"result/{output.name}", want[f"result/{output.name}"], value)
        if graph.kind == "edges" and value.is_float:
            result = np.where(np.isnan(expected), expected, result)
        room = by_rounding(graph, value, expected)
        wrong = away(value, result, expected, room if room is not None or not value.is_float else 2.0**-22 * (1 + np.abs(expected)))
        if wrong:
            yield f"DIFFERENCE seed {seed}: {output.name} {wrong}\n{text}"


first, count = (int(one) for one in sys.argv[1:]) if len(sys.argv) == 3 else (1, 300)
counts, found = collections.Counter(), []
for seed in range(first, first + count):
    try:
        new = list(differences(seed))
        counts["alike" if not new else "different"] += 1
        found += new
    except Exception as error:
        reason = next((reason for reason in MAY_FAIL if reason in str(error)), None)
        counts[reason or "failed"] += 1
        if reason is None:
            found.append(f"FAILED seed {seed}: {str(error)[:2000]}")
print("\n".join(found))
print(dict(counts))
sys.exit(1 if found or counts["alike"] < count / 2 else 0)
