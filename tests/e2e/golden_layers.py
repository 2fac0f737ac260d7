"""golden_layers: the library's layers, functions, losses, optimizers and schedules against tests/golden/layers, values and gradients.

For each case a small program is written that calls what the case names with the case's arguments; the reference interpreter runs it. Nothing of
the library's defaults is repeated here, so a default that is not Keras's fails.
"""

import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
import golden_cases
from programs import Checks, interpret, write

checks = Checks()


def check(case):
    found = interpret(write(case.program()), case.step, case.given(), **case.options())
    for name, expected in case.expected().items():
        checks.near(f"{case.name}: {name}", found[name], expected, relative=case.relative, absolute=case.absolute)


for case in golden_cases.load():
    checks.fails(case.name, lambda: check(case))
checks.finish()
