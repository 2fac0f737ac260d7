"""report: what the scripts beside this have in common: the time that is left, commands that may fail, tables as Markdown and JSON.

The machine may go away at any moment, so what is known is written at once, and again with each row. What a command prints is an answer and
may be read; what it says on stderr is for people, and goes to FOLDER/NAME.log.
"""
import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(os.environ["DT_SOURCE"])
DATA = os.environ["DT_DATA"]
FAKE = os.environ.get("DT_CUDA_DRIVER", "").endswith("libfake_cuda.so")  # tests/support/fake_cuda.h: logic is tried, not speed
if FAKE:
    for variable, name in (("DT_CUBLASLT", "libfake_cublaslt.so"), ("DT_CUDNN", "libfake_cudnn.so"), ("DT_NCCL", "libfake_nccl.so")):
        os.environ.setdefault(variable, str(pathlib.Path(os.environ["DT_CUDA_DRIVER"]).with_name(name)))
LIMIT = 450.0  # seconds for all of a script
BEGAN = time.monotonic()
_end = BEGAN + LIMIT
_scratch = tempfile.TemporaryDirectory(prefix="dt-gpu-")
SCRATCH = pathlib.Path(_scratch.name)  # for what nobody reads afterwards
FOLDER = pathlib.Path(sys.argv[1])  # for what is read
LOG = open(FOLDER / f"{pathlib.Path(sys.argv[0]).stem}.log", "w")


def left():
    return _end - time.monotonic()


@contextlib.contextmanager
def within(seconds):
    """What is done inside has at most this many of the seconds that are left."""
    global _end
    outer, _end = _end, min(_end, time.monotonic() + seconds)
    try:
        yield
    finally:
        _end = outer


class Failed(Exception):
    """A command that ended with an error, that there was no time for, or whose answer is not understood; its text says which. `printed` is what it
    had printed until then, `log` that and what it had said on stderr."""

    def __init__(self, message, printed="", log=""):
        super().__init__(message)
        self.printed, self.log = printed, log


def understood(function):
    """A decorator for a function that parses what a command answers: an answer of another form is a failure like any other."""
    @functools.wraps(function)
    def reader(*arguments, **more):
        try:
            return function(*arguments, **more)
        except (ValueError, LookupError, TypeError) as error:
            raise Failed(f"what it answers is not understood: {type(error).__name__}: {error}".splitlines()[0]) from None
    return reader


def run(command, timeout=None, environment=None):
    """Runs a command that must succeed, with all that it starts; returns what it printed."""
    words, seconds = [str(word) for word in command], min(timeout or LIMIT, left())
    if seconds <= 1:
        raise Failed("no time was left")
    try:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   env=dict(os.environ, **(environment or {})))
    except OSError as error:
        raise Failed(str(error)) from None
    try:
        printed, said = process.communicate(timeout=seconds)
        wrong = process.returncode != 0 and f"exit status {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, said = process.communicate()
        wrong = f"took longer than {seconds:.0f} s"
    LOG.write(f"$ {' '.join(words)}\n{said}")
    LOG.flush()
    if wrong:
        last = (said.strip() or printed.strip() or "without a word").splitlines()[-1]
        raise Failed(f"{wrong}: {last}", printed, printed + said)
    return printed


def gpu():
    """(its line of `dtrun devices`, "sm_90")"""
    line = re.search(r"^GPU 0: (.*)$", run(["dtrun", "devices"]), re.MULTILINE)[1]
    return line, re.search(r"sm_\d+", line)[0]


def compile_program(architecture, source, name, *flags):
    """A program for that GPU, as NAME.dtx."""
    artifact = SCRATCH / f"{name}.dtx"
    run(["dtc", "compile", "--target", f"cuda:{architecture}", source, "-o", artifact, *flags])
    if FAKE:
        emulate(artifact)
    return artifact


def emulate(source):
    """Has the fake run the kernels of an artifact, or of CUDA text."""
    library = SCRATCH / f"{source.name}.so"
    run([sys.executable, ROOT / "tests/support/emulated_kernels.py", source, library])
    os.environ["FAKE_CUDA_KERNELS"] = str(library)


def median_ratio(pairs):
    """Of [(ours, theirs)], as rates: the median of ours / theirs."""
    return statistics.median(ours / theirs for ours, theirs in pairs)


class Report:
    """Tables, written to FOLDER/NAME.md and FOLDER/NAME.json."""

    def __init__(self, name):
        self.name = name
        self.lines, self.json = [gpu()[0]], {"gpu": gpu()[0], "rows": [], "notes": []}

    def save(self):
        (FOLDER / f"{self.name}.md").write_text("\n".join([*self.lines, "", *self.json["notes"]]) + "\n")
        (FOLDER / f"{self.name}.json").write_text(json.dumps(self.json | {"seconds": time.monotonic() - BEGAN}, indent=1) + "\n")

    def say(self, line):
        """Behind all tables."""
        self.json["notes"].append(line)
        print(line, flush=True)
        self.save()

    def table(self, title, *columns):
        self.lines += ["", f"| {title} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
        self.title, self.columns = title, columns
        print(f"\n{title}: {', '.join(columns)}", flush=True)

    def row(self, name, *cells, numbers=None):
        """`numbers` go to the JSON beside the cells."""
        shown = ["" if cell is None else str(cell) for cell in cells]
        self.lines.append(f"| {name} | " + " | ".join(shown) + " |")
        self.json["rows"].append({"table": self.title, "name": name} | dict(zip(self.columns, shown)) | {"numbers": numbers or {}})
        print(f"  {name}: {', '.join(shown)}", flush=True)
        self.save()
