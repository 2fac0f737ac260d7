"""NCCL as PyPI has it, for CUDA 12 and 13: what the runtime has of it by heart is in its header, and the library has every function that is called,
and works as far as it does without a GPU.

Skipped where the packages cannot be installed."""
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/structure"))
import vendor_headers  # noqa: E402

PACKAGES = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")

# Of CUDA's headers as much as nccl.h takes, for a machine without them.
STAND_INS = {
    "cuda_runtime.h": "#include <stddef.h>\ntypedef struct CUstream_st *cudaStream_t;\ntypedef struct CUevent_st *cudaEvent_t;\n#define CUDART_VERSION 12000\n",
    "cuda_fp16.h": "", "cuda_bf16.h": "", "cuda_fp8.h": "",
}


def install(package, folder):
    """False: it cannot be."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", folder, package]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{package}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'pip fails'}")
    return done.returncode == 0


def check_header(folder, ours):
    for name, text in STAND_INS.items():
        if not (folder / name).exists():
            (folder / name).write_text(text)
    assert vendor_headers.check(folder, ours)
    return int(re.search(r"#define NCCL_VERSION_CODE (\d+)", (folder / "nccl.h").read_text())[1])


def check_library(path, ours, version):
    library = ctypes.CDLL(path)
    for _, symbol, _ in ours.functions:
        assert hasattr(library, symbol), f"{path} has no {symbol}"
    found, id_bytes = ctypes.c_int(), ctypes.create_string_buffer(128)
    assert library.ncclGetVersion(ctypes.byref(found)) == 0 and found.value == version, (found, version)
    assert library.ncclGetUniqueId(id_bytes) == 0 and any(id_bytes.raw)


def main():
    ours = vendor_headers.Library("NCCL", "runtime/comm/nccl/library.h", "nccl.h", "DT_NCCL")
    n_checked = 0
    for package in PACKAGES:
        with tempfile.TemporaryDirectory() as scratch:
            if not install(package, scratch):
                continue
            version = check_header(next(pathlib.Path(scratch).rglob("nccl.h")).parent, ours)
            check_library(next(pathlib.Path(scratch).rglob("libnccl.so.2")), ours, version)
            print(f"{package}: {version}", flush=True)
            n_checked += 1
    if n_checked == 0:
        print("skipped: none of the packages can be installed")
    return 0 if n_checked > 0 else 77


if __name__ == "__main__":
    sys.exit(main())
