"""gpu: what the tests on a GPU share, beside training.py: the GPU, programs compiled for it, and what a training left in numbers.

Nothing but Python itself is needed, since a machine with a GPU may have nothing else. Without a GPU a test ends with 77, which CTest counts as
skipped. With the fake driver (tests/support/fake_cuda.h) the same runs by emulation, at sizes that take seconds: FAKE says so.
"""
import array
import re

from training import *  # noqa: F403

FAKE = os.environ.get("DT_CUDA_DRIVER", "").endswith("libfake_cuda.so")
if FAKE:
    for variable, name in (("DT_CUBLASLT", "libfake_cublaslt.so"), ("DT_CUDNN", "libfake_cudnn.so")):
        os.environ.setdefault(variable, str(pathlib.Path(os.environ["DT_CUDA_DRIVER"]).with_name(name)))


def architecture():
    """"sm_90" of the first GPU."""
    listed = subprocess.run(["dtrun", "devices"], capture_output=True, text=True).stdout
    found = re.search(r"^GPU 0: .*\b(sm_\d+)\b", listed, re.MULTILINE)
    if found is None:
        print("skipped: there is no GPU")
        sys.exit(77)
    return found[1]


ARCHITECTURE = architecture()


def for_gpu(text, name, *flags):
    """Compiles a program for this machine's GPU and its cores. With the fake, the kernels of the last program compiled are those that run."""
    artifact = compile_program(text, name, "--target", f"cuda:{ARCHITECTURE}", *flags)
    if FAKE:
        library = FOLDER / f"{name}.so"
        script = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/support/emulated_kernels.py"
        made = subprocess.run([sys.executable, script, artifact, library], capture_output=True, text=True)
        if made.returncode == 77:
            print(made.stdout, end="")
            sys.exit(77)
        check(made.returncode == 0, made.stdout + made.stderr)
        os.environ["FAKE_CUDA_KERNELS"] = str(library)
    return artifact


def tensors(path):
    """{name: the floats of an f32 tensor} of a .safetensors file."""
    content = path.read_bytes()
    n_head = struct.unpack("<Q", content[:8])[0]
    found = {}
    for name, about in json.loads(content[8:8 + n_head]).items():
        if name != "__metadata__" and about["dtype"] == "F32":
            begin, end = about["data_offsets"]
            found[name] = array.array("f", content[8 + n_head + begin:8 + n_head + end])
    return found


SMALLEST = 1e-3


def distance(found, wanted):
    """How far two lists of numbers are apart, of the size of the second: both as the root of the mean of squares. A size below SMALLEST counts as that:
    a bias in front of a normalisation has a gradient that is rounding and nothing else, and is noise that differs by more than it is large."""
    apart = (sum((x - y) ** 2 for x, y in zip(found, wanted)) / len(wanted)) ** 0.5
    size = (sum(y * y for y in wanted) / len(wanted)) ** 0.5
    far = apart / max(size, SMALLEST)
    return far if far == far else float("inf")


def write_images(folder, n=2000, n_test=200):
    """Made-up examples under the names and in the shapes of Fashion-MNIST."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, count, seed in (("train", n, 1), ("t10k", n_test, 2)):
        images, labels = make_examples(count, seed, 28)
        for name, content in (("images-idx3", idx(images, count, 28, 28)), ("labels-idx1", idx(labels, count))):
            (folder / f"{prefix}-{name}-ubyte.gz").write_bytes(gzip.compress(content, mtime=0))
    return folder
