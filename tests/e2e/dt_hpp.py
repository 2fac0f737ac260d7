"""include/dt.hpp, compiled as an application would and run: launch values, pipelines, training, checkpoints, text."""
import os
import pathlib
import subprocess
import tempfile

import numpy

# As the libraries are, whose sanitizer has to be there before all else.
SANITIZED = [f"-fsanitize={os.environ['DT_SANITIZE']}"] if os.environ["DT_SANITIZE"] else []
SOURCE, BUILD = pathlib.Path(os.environ["DT_SOURCE"]), pathlib.Path(os.environ["DT_BUILD"])

with tempfile.TemporaryDirectory() as folder:
    numbers = numpy.random.default_rng(1)
    x = numbers.uniform(-1, 1, (20, 2)).astype(numpy.float32)
    numpy.save(f"{folder}/x.npy", x)
    numpy.save(f"{folder}/y.npy", (x @ numpy.array([[3], [-2]], numpy.float32) + 1).astype(numpy.float32))
    subprocess.run(["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", *SANITIZED, SOURCE / "tests/support/session.cpp", "-o", f"{folder}/session",
                    f"-I{SOURCE}/include", f"-L{BUILD}", "-ldtc", "-ldtrt", f"-Wl,-rpath,{BUILD}"], check=True)
    done = subprocess.run([f"{folder}/session", folder], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "all of it holds\n", done
