"""curves_full: the CNN at its full batch of 128 against the reference interpreter, which takes minutes for it."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "e2e"))
import curves

curves.need_data()
curves.against_interpreter("cnn", 128, (1, 2, 4))
curves.checks.finish()
