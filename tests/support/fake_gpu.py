"""fake_gpu: what the tests that run dtrun on a GPU share, where the GPU is the fake driver (fake_cuda.h) and kernels are emulated.

Without NVRTC, which dtc needs to compile for GPUs, a test ends with 77, which CTest counts as skipped.
"""
import re

import emulated_kernels
from training import *

DRIVER = pathlib.Path(os.environ["DT_BUILD"]) / "tests/libfake_cuda.so"
LEFT_BEHIND = 86  # the exit status that the fake gives to a process that misused it, or forgot something


class Artifact:
    """A program compiled for GPUs of the given architectures, and its kernels for the fake."""

    def __init__(self, text, name, *flags, target="cuda:sm_90"):
        if not emulated_kernels.is_possible():
            sys.exit(77)
        source, self.path = FOLDER / f"{name}.dt", FOLDER / f"{name}.dtx"
        source.write_text(text)
        made = subprocess.run(["dtc", "compile", "--target", target, source, "-o", self.path, *flags], capture_output=True, text=True)
        if "NVRTC, the compiler of CUDA C++, is not installed" in made.stderr:
            print("skipped:", made.stderr.strip())
            sys.exit(77)
        check(made.returncode == 0, f"dtc compile {source}:\n{made.stderr}")
        self.kernels = emulated_kernels.compile_artifact(self.path, FOLDER / f"{name}.so")

    def environment(self, check="memory", **settings):
        """The environment of a dtrun that finds the fake; settings are those of fake_cuda.h, as in seed=3, fail="17=2". check: DT_CUDA_CHECK; as it is, all that a
        session holds on the GPU has borders of its own, at which the fake sees what goes beyond; "" is what users get."""
        found = {"DT_CUDA_DRIVER": str(DRIVER), "FAKE_CUDA_KERNELS": str(self.kernels), "DT_CUDA_CHECK": check,
                 "DT_CUBLASLT": str(DRIVER.with_name("libfake_cublaslt.so")), "DT_CUDNN": str(DRIVER.with_name("libfake_cudnn.so"))}
        found.update((f"FAKE_CUDA_{name.upper()}", str(value)) for name, value in settings.items())
        return found

    def run(self, verb, *flags, devices="cuda:0", expect=0, **settings):
        return Run(verb, self.path, *flags, "--devices", devices, expect=expect, environment=self.environment(**settings), seconds=120)


class Call:
    """A line of the fake's log: the number, name and arguments of a call, its error (""), and what ran in it."""

    def __init__(self, line):
        found = re.fullmatch(r"(\d+) (\w+) (.*?)(?: = (\w+))?", line)
        self.number, self.name, self.arguments, self.error = int(found[1]), found[2], found[3], found[4] or ""
        self.ran = []

    def __repr__(self):
        return f"{self.number} {self.name} {self.arguments} {self.error}"

    def bytes(self):
        found = re.search(r"bytes (\d+)", self.arguments)
        return int(found[1]) if found else 0


def read_log(path):
    """The calls of a log. What runs within a call stands in front of its line."""
    calls, ran = [], []
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith("    "):
            ran.append(line.strip())
        else:
            calls.append(Call(line))
            calls[-1].ran, ran = ran, []
    return calls
