"""emulated_kernels: CUDA text compiled for the CPU, as the fake driver (tests/support/fake_cuda.h) needs it.

    python3 tests/support/emulated_kernels.py m.dtx kernels.so         # the text in an artifact; or text.cu

The text is taken as it is; tests/support/cuda_emulation.h stands before it, and behind it the table of its kernels. Needs c++; exits with 77 on
a machine whose instructions do not suffice.
"""
import json
import pathlib
import re
import subprocess
import sys
import zipfile

SUPPORT = pathlib.Path(__file__).resolve().parent
FLAGS = ("-std=c++17 -O1 -march=x86-64-v3 -ffp-contract=off -Wall -Wno-unused -Wno-bool-operation -Wno-unknown-pragmas -fPIC -shared").split()
KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\s*\(")


def is_possible():
    """Can this machine run what the emulation makes? Says so if not."""
    if {"avx2", "fma", "f16c"} <= set(pathlib.Path("/proc/cpuinfo").read_text().split()):
        return True
    print("skipped: this machine is below x86-64-v3")
    return False


def compile_text(text, library):
    """Compiles CUDA text into the shared object `library`."""
    names = KERNEL.findall(text)
    source = pathlib.Path(f"{library}.cu")
    source.write_text(f"{text}\nEMULATION({' '.join(f'EMULATED({name})' for name in names)})\n")
    command = ["c++", "-x", "c++", *FLAGS, "-include", SUPPORT / "cuda_emulation.h", source, "-o", library]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[:4000]}")


def text_of(artifact):
    with zipfile.ZipFile(artifact) as archive:
        cuda = json.loads(archive.read("manifest.json")).get("cuda")
        if cuda is None:
            sys.exit(f"{artifact} holds no code for GPUs: dtc compile --target cuda writes it")
        return archive.read(cuda["text"]).decode()


def compile_artifact(artifact, library):
    compile_text(text_of(artifact), library)
    return library


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if not is_possible():
        return 77
    source, library = sys.argv[1:]
    if source.endswith(".cu"):
        compile_text(pathlib.Path(source).read_text(), library)
    else:
        compile_artifact(source, library)
    return 0


if __name__ == "__main__":
    sys.exit(main())
