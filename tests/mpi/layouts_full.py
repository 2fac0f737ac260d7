"""The same as layouts.py for all layouts, programs and both MPIs."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
from training import finish

ALL = [(processes, devices) for processes in (1, 2, 3, 4) for devices in (1, 2)]

for replicas in (6, 8, 12):
    for case in (layouts.net(), layouts.pairs(), layouts.halves(), layouts.net("--precision", "bf16", name="bf16")):
        layouts.compare("openmpi", case, replicas, [(p, d) for p, d in ALL if p * d <= replicas])
    layouts.compare("openmpi", layouts.resnet(), replicas, [(2, 2), (3, 1), (4, 1)])
layouts.compare("mpich", layouts.net(), 8, [(2, 1), (3, 2), (4, 1)])
layouts.compare("mpich", layouts.pairs(), 6, [(2, 1), (3, 1)])
for numbers in ([1, 2, 4], [4, 3, 2, 1]):
    layouts.goes_on("openmpi", layouts.net(), 12, numbers)
layouts.goes_on("mpich", layouts.net(), 8, [2, 1, 3])
finish()
