"""golden_layers: the library's layers, functions, losses, optimizers and schedules against tests/golden/layers and tests/golden/library,
values and gradients.

Programs are written with a step for each case, which calls what the case names with the case's arguments; the reference interpreter runs them. Nothing of
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


def check(program, case):
    found = interpret(program, case.steps(), case.given(), **case.options())
    for name, actual, expected in case.compared(found):
        checks.near(f"{case.name}: {name}", actual, expected, relative=case.relative, absolute=case.absolute)


for text, cases in golden_cases.load():
    program = write(text)
    for case in cases:
        checks.fails(case.name, lambda: check(program, case))
checks.finish()
