"""Same program, data, seed and V: the same bits after 50 steps on any number of devices and cores. Batch normalisation, dropout and Adam in a small network."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

assert_equal_bits(compile_program(PROGRAM, "net", "--batch", "96"), write_data())
finish()
