"""The metrics of the library say what those of Keras and scikit-learn say (tests/golden/metrics.py), of examples whose last batch is short, with one, two and three
replicas; these agree in all bits but those of sums that are not exact. The weight of an example is that of each of its elements; a label whose score is NaN is
among no greatest k."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

golden = json.loads((pathlib.Path(os.environ["DT_SOURCE"]) / "tests/golden/metrics.json").read_text())
arrays = {name: np.array(values, np.int32 if isinstance(np.ravel(values)[0].item(), int) else np.float32) for name, values in golden["data"].items()}
data = FOLDER / "data"
data.mkdir()
for name, array in arrays.items():
    np.save(data / f"{name}.npy", array)
inputs = ", ".join(f"{name}: {'i32' if array.dtype == np.int32 else 'f32'}[{', '.join(['B', *map(str, array.shape[1:])])}]" for name, array in arrays.items())
files = ", ".join(f'"{name}.npy"' for name in arrays)
reports = ",\n           ".join(f"r{i}: {report}" for i, report in enumerate(golden["reports"]))
program = compile_program(f"use nn, losses, metrics\n\ndata examples = npy({files}) | batch({golden['batch']})\n\n"
                          f"step evaluate({inputs}) from examples {{\n    report {reports}\n}}\n", "metrics")
values = []
for replicas, devices in ((1, "cpu:1x1"), (1, "cpu:1x2"), (2, "cpu:1x1"), (2, "cpu:2x1"), (3, "cpu:1x1")):
    run = Run("evaluate", program, "--data", data, "--global-batch", golden["batch"], "--replicas", replicas, "--devices", devices)
    epoch = run.one("epoch")
    values.append([epoch[f"r{i}"] for i in range(len(golden["reports"]))])
    for found, (report, wanted) in zip(values[-1], golden["reports"].items()):
        check(np.shape(found) == np.shape(wanted) and np.allclose(found, wanted, rtol=2e-6, atol=1e-7), f"{report}, {replicas} replicas: {found}, not {wanted}")
check(values[0] == values[1] and values[2] == values[3], "another number of threads or devices gives other bits")
check(len(values[0]) > 60, "reports are missing")

calls = ["accuracy(wide, f32(wide_scores > 0.5)", "precision(wide, wide_scores", "recall(wide, wide_scores, threshold: [0.2, 0.8]", "auc(wide, wide_scores",
         "confusion_matrix(region, guessed_region, 4", "class_f1(region, guessed_region, 4", "mean_iou(region, guessed_region, 4"]
reports = ", ".join(f"r{i}: {call}, weight: weight), e{i}: {call}, weight: weight[:, newaxis] * f32({call[call.index('(') + 1:].split(',')[0]} > -1))"
                    for i, call in enumerate(calls))
program = compile_program(f"use nn, metrics\n\ndata examples = npy({files}) | batch({golden['batch']})\n\nstep evaluate({inputs}) from examples {{\n"
                          f"    report {reports},\n           top: mean(in_top_k(0 * scores / 0, label, 1))\n}}\n", "weights")
epoch = Run("evaluate", program, "--data", data).one("epoch")
for i, call in enumerate(calls):
    check(np.allclose(epoch[f"r{i}"], epoch[f"e{i}"], rtol=1e-6), f"{call}: weights of examples give {epoch[f'r{i}']}, of elements {epoch[f'e{i}']}")
check(epoch["top"] == 0, f"of NaN {epoch['top']} are among the greatest")
finish()
