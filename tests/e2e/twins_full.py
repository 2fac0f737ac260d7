"""twins_full: BERT and GPT at the sizes of the examples follow PyTorch (transformers_curve.py)."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks
from twins import Twin

checks = Checks()
for name, bounds in (("bert_full", {1: 1e-6, 10: 1e-5, 100: 1e-3}), ("gpt_full", {1: 1e-6, 10: 1e-5, 50: 1e-3})):
    twin = Twin(name)
    checks.curve(f"{name}, PyTorch", twin.losses("--devices=cpu"), twin.golden["loss_f64"], bounds)
checks.finish()
