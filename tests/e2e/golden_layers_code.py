"""golden_layers_code: the same cases as golden_layers, by compiled code on one and on three replicas.

Three replicas share the rows of a case as they come: 2 rows leave the last replica without any. The optimizers' one row leaves two.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
import golden_cases
from programs import Checks, compile, execute, write

checks = Checks()


def check(artifact, case):
    for replicas in (1, 3):
        found = execute(artifact, case.steps(), case.given(), replicas=replicas, **case.options())
        for name, actual, expected in case.compared(found):
            checks.near(f"{case.name}, {replicas} replicas: {name}", actual, expected, relative=case.relative, absolute=case.absolute)


for text, cases in golden_cases.load():
    artifact = compile(write(text), batch=8)
    for case in cases:
        checks.fails(case.name, lambda: check(artifact, case))
checks.finish()
