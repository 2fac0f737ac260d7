"""A training ends with the same bytes in any layout of processes and devices: weights, slots, reports, evaluation, predictions."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
from training import finish

layouts.compare("openmpi", layouts.net(), 6, [(2, 2), (4, 1)])
layouts.compare("openmpi", layouts.net(), 8, [(3, 1)])
layouts.compare("openmpi", layouts.pairs(), 6, [(3, 1), (2, 2)])
layouts.compare("openmpi", layouts.halves(), 6, [(4, 1)])
layouts.compare("openmpi", layouts.wide(), 6, [(2, 2), (4, 1)])
layouts.goes_on("openmpi", layouts.net(), 6, [3, 1, 4])
finish()
