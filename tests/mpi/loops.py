"""Loops over tensors in several processes: training, evaluation and predictions have the bytes of one process; and a run that is stopped in the middle of an
epoch goes on in other numbers of processes."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
from training import finish

case = layouts.loops()
layouts.compare("openmpi", case, 6, [(3, 1), (2, 2)])
layouts.goes_on("openmpi", case, 6, [2, 1, 3])
finish()
