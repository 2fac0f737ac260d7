"""Same program, data, seed and V: the same bits after 50 steps on any number of devices and cores, whatever the precision. Batch normalisation, dropout and
Adam in a small network."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

for precision in ("f32", "bf16"):
    assert_equal_bits(compile_program(PROGRAM, f"net_{precision}", "--batch", "96", "--precision", precision), write_data())
finish()
