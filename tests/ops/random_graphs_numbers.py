"""60 random graphs of numbers at their edges, pairs of rows and second gradients, beside NumPy: tests/tools/random_numbers.py. A wrong number is seen."""
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
sys.path[:0] = [str(SOURCE / "tests/support")]
import numpy as np  # noqa: E402
from number_reference import Number, Words, differs  # noqa: E402

words = Words(rows=4)
half = words.sum(Number("f16", np.full(3, 40000.0)), [0])
assert differs(half, np.float64(65504.0)) and not differs(half, np.float64(np.inf))  # f16 is rounded once, to infinity
wide = words.sum(words.convert(Number("f16", np.full(3, 40000.0)), "f32"), [0])
assert differs(wide, np.float32(np.inf)) and not differs(wide, np.float32(120000))
third = words.divide(Number("f32", np.float64(1)), Number("f32", np.float64(3)))
assert differs(third, np.nextafter(np.float32(1 / 3), np.float32(1))) and not differs(third, np.float32(1 / 3))

tool = SOURCE / "tests/tools/random_numbers.py"
sys.exit(subprocess.run([sys.executable, tool, "--count", "60"]).returncode)
