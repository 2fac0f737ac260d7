"""weights_sha256: a table of trained weights, one SHA-256 a training, so that a change that must not change a bit is seen to change none.

    python3 tests/tools/weights_sha256.py --dtc build/dtc --dtrun build/dtrun > before.txt
    ... the change, and a build ...
    python3 tests/tools/weights_sha256.py --dtc build/dtc --dtrun build/dtrun > after.txt
    diff before.txt after.txt

The programs are those of examples/, in small batches of made-up data, with a short last batch in each epoch; they run on one and two devices, at every
level that this machine has, and on a GPU by emulation (the fake driver beside dtrun, NVRTC and c++), where a step costs a thousand times as much. A sum
covers names, types, shapes and bytes of all parameters, states and optimizer slots of the last checkpoint. A training that cannot be run has the reason
in the place of its sum, and the exit status is 1. Takes four minutes on two cores; --only REGEX prints the rows that match.
"""
import argparse
import collections
import gzip
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/support"))

import emulated_kernels  # noqa: E402

LEVELS = ("x86-64-v3", "x86-64-v4")
LAYOUTS = [(1, "cpu:1"), (1, "cpu:1x2"), (2, "cpu:1"), (2, "cpu:2"), (3, "cpu:1"), (3, "cpu:2")]  # replicas, devices
N_TEST = 8
CPU_ROWS, CPU_BATCH, CPU_STEPS, CPU_EXAMPLES = 42, 42, 50, 2 * 42 + 17  # an epoch's last batch leaves the last of three replicas few rows or none
GPU_ROWS, GPU_BATCH, GPU_EXAMPLES = 6, 6, 2 * 6 + 2
GPU_STEPS = {"perceptron": 50, "own_parts": 50, "fashion_cnn": 6, "gan": 6, "resnet": 6}
SMALLER = {
    "resnet": ("-D", "blocks=1", "-D", "widths=[16, 32]"),
    "gpt": ("-D", "layers=3", "-D", "width=64", "-D", "context=24"),
    "bert_mlm": ("-D", "width=64", "-D", "context=24", "-D", "predictions=5"),
}

# A training: `rows` is what a replica's memory is planned for, `level` the CPU's instruction set or "generated" or "libraries" on a GPU.
Training = collections.namedtuple("Training", "program precision replicas devices level rows batch steps")


def trainings():
    for program in ("fashion_cnn", "resnet", "gan", "perceptron", "own_parts", "gpt", "bert_mlm"):
        for level in LEVELS:
            for replicas, devices in LAYOUTS:
                yield Training(program, "f32", replicas, devices, level, CPU_ROWS, CPU_BATCH, CPU_STEPS)
    for precision in ("tf32", "bf16"):
        for level in LEVELS:
            yield Training("fashion_cnn", precision, 2, "cpu:2", level, CPU_ROWS, CPU_BATCH, CPU_STEPS)
    for program, steps in GPU_STEPS.items():
        for level in ("generated", "libraries"):
            for replicas in (1, 2, 3):
                yield Training(program, "f32", replicas, "cuda:0", level, GPU_ROWS, GPU_BATCH, steps)


def idx(content, *shape):
    return gzip.compress(struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + content, mtime=0)


def write_data(folder, n_train):
    """What the examples read, under the names that they give it; returns the folder."""
    folder.mkdir()
    numbers = random.Random(1)
    for prefix, n in (("train", n_train), ("t10k", N_TEST)):
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(idx(numbers.randbytes(n * 28 * 28), n, 28, 28))
        (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(idx(bytes(numbers.randrange(10) for _ in range(n)), n))
    lines = [",".join(f"{numbers.uniform(-1, 1):.6f}" for _ in range(9)) for _ in range(n_train)]
    (folder / "numbers.csv").write_text("\n".join(["a,b,c,d,e,f,g,h,target", *lines]) + "\n")
    letters = "abcdefgh"
    for name, n in (("train", n_train), ("valid", N_TEST), ("test", N_TEST)):
        words = ["".join(numbers.choices(letters, k=numbers.randint(1, 6))) for _ in range(40 * n)]
        (folder / f"{name}.txt").write_text("".join(" ".join(words[40 * i : 40 * i + 40]) + "\n" for i in range(n)))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), "ab", "##cd"]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return folder


def tensors(path):
    """(name, type, shape, bytes) of each tensor of a .safetensors file, by name. What else the file says is not part of the weights."""
    content = path.read_bytes()
    n_head = struct.unpack("<Q", content[:8])[0]
    for name, about in sorted(json.loads(content[8:8 + n_head]).items()):
        if name != "__metadata__":
            begin, end = about["data_offsets"]
            yield name, about["dtype"], about["shape"], content[8 + n_head + begin:8 + n_head + end]


def sum_of(checkpoint):
    """The SHA-256 of all that a checkpoint holds of the model and its optimizers."""
    found = hashlib.sha256()
    for name in ("model.safetensors", "optimizer.safetensors"):
        for tensor, dtype, shape, content in tensors(checkpoint / name):
            found.update(f"{name} {tensor} {dtype} {shape} {len(content)}\n".encode() + content)
    return found.hexdigest()


class NotRun(Exception):
    """Why there is no sum."""


class Table:
    def __init__(self, dtc, dtrun, folder):
        self.dtc, self.dtrun, self.folder = dtc, dtrun, folder
        self.driver = pathlib.Path(dtrun).resolve().parent / "tests/libfake_cuda.so"
        self.artifacts, self.kernels = {}, {}
        self.cpu_data, self.gpu_data = write_data(folder / "cpu", CPU_EXAMPLES), write_data(folder / "gpu", GPU_EXAMPLES)
        self.n_not_run = 0

    def run(self, command, environment=None):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, **(environment or {})})
        if done.returncode != 0:
            raise NotRun((done.stderr.strip() or f"exit status {done.returncode}").splitlines()[0])

    def artifact(self, training):
        """The compiled program, made when it is first asked for."""
        on_gpu = training.devices.startswith("cuda")
        target = ["--target", "cuda:sm_90", "--library", "none" if training.level == "generated" else "auto"] if on_gpu else []
        key = (training.program, training.precision, training.rows, *target)
        if key not in self.artifacts:
            path = self.folder / f"{len(self.artifacts)}.dtx"
            self.run([self.dtc, "compile", SOURCE / f"examples/{training.program}.dt", "-o", path, "--batch", training.rows,
                      "--precision", training.precision, *SMALLER.get(training.program, ()), *target])
            self.artifacts[key] = path
        return self.artifacts[key]

    def gpu(self, artifact):
        """The environment in which dtrun finds a GPU that runs the artifact's kernels by emulation."""
        if shutil.which("c++") is None or not self.driver.exists():
            raise NotRun(f"emulation needs c++ and {self.driver}")
        if artifact not in self.kernels:
            self.kernels[artifact] = emulated_kernels.compile_artifact(artifact, artifact.with_suffix(".so"))
        libraries = {"DT_CUBLASLT": self.driver.with_name("libfake_cublaslt.so"), "DT_CUDNN": self.driver.with_name("libfake_cudnn.so")}
        environment = {"DT_CUDA_DRIVER": self.driver, "FAKE_CUDA_KERNELS": self.kernels[artifact], "FAKE_CUDA_MULTIPROCESSORS": 2, **libraries}
        return {name: str(value) for name, value in environment.items()}

    def train(self, training):
        """The checkpoint at the end of a training."""
        artifact = self.artifact(training)
        checkpoints = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        if training.devices.startswith("cuda"):
            data, environment = self.gpu_data, self.gpu(artifact)
            flags = ["--library", "none" if training.level == "generated" else "auto"]
        else:
            data, environment, flags = self.cpu_data, None, ["--level", training.level]
        self.run([self.dtrun, "train", artifact, "--data", data, "--max-steps", training.steps, "--global-batch", training.batch,
                  "--replicas", training.replicas, "--devices", training.devices, "--checkpoint-dir", checkpoints, "--keep", 1, "--log-every", 0,
                  *flags], environment)
        return checkpoints / f"step-{training.steps}"

    def row(self, training):
        try:
            checkpoint = self.train(training)
            found = sum_of(checkpoint)
            shutil.rmtree(checkpoint.parent)
        except NotRun as reason:
            self.n_not_run += 1
            found = f"not run: {reason}"
        return f"{heading(training)}  {found}"


def heading(t):
    precision = "" if t.precision == "f32" else f" {t.precision}"
    return f"{t.program + precision:17} V={t.replicas}  {t.devices:7}  {t.level:9}  rows {t.rows:2}  batch {t.batch:2}  {t.steps:2} steps"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtc", default="build/dtc")
    parser.add_argument("--dtrun", default="build/dtrun")
    parser.add_argument("--only", default="", metavar="REGEX", help="only rows that match, such as 'perceptron.*v3'")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dt-weights-") as folder:
        table = Table(options.dtc, options.dtrun, pathlib.Path(folder))
        for training in trainings():
            if re.search(options.only, heading(training)):
                print(table.row(training), flush=True)
    if table.n_not_run > 0:
        sys.exit(f"{table.n_not_run} trainings could not be run: the table says why")


if __name__ == "__main__":
    main()
