"""The numbers and structures of vendors' libraries that the runtime has by heart are those of the vendors' headers, where these are installed.

Looked for in $CUDA_HOME, $CUDA_PATH and /usr/local/cuda; skipped without a compiler or without a header.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
STRUCTURES = {
    "cublasLt.h": "_Static_assert(sizeof(dt_cublaslt_algorithm) == sizeof(cublasLtMatmulAlgo_t), \"algorithm\");\n"
                  "_Static_assert(sizeof(dt_cublaslt_choice) == sizeof(cublasLtMatmulHeuristicResult_t), \"choice\");\n"
                  "_Static_assert(offsetof(dt_cublaslt_choice, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize), \"bytes\");\n"
                  "_Static_assert(offsetof(dt_cublaslt_choice, state) == offsetof(cublasLtMatmulHeuristicResult_t, state), \"state\");\n",
    "cudnn.h": "",
}


def check(folder, ours, table, theirs):
    """True: they agree; None: there is no such header."""
    if not (folder / theirs).exists():
        return None
    names = re.findall(r"^\s*X\((\w+), \d+\)", (SOURCE / ours).read_text().split(f"#define {table}(X)")[1].split("enum {")[0], re.M)
    assert len(names) > 20, names
    text = f'#include <stddef.h>\n#include "{ours}"\n#include <{theirs}>\n{STRUCTURES[theirs]}'
    text += "".join(f'_Static_assert((int)DT_{name} == (int){name}, "{name}");\n' for name in names)
    with tempfile.TemporaryDirectory() as here:
        path = pathlib.Path(here) / "check.c"
        path.write_text(text)
        done = subprocess.run(["cc", "-std=c17", "-fsyntax-only", f"-I{SOURCE}", f"-I{folder}", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        path.write_text(text.replace(f"(int){names[3]},", f"(int){names[3]} + 1,"))  # the comparison itself works
        assert subprocess.run(["cc", "-std=c17", "-fsyntax-only", f"-I{SOURCE}", f"-I{folder}", path], capture_output=True).returncode != 0
    return True


def main():
    if shutil.which("cc") is None:
        print("skipped: no C compiler called cc")
        return 77
    places = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    folder = next((pathlib.Path(p) / "include" for p in places if p and (pathlib.Path(p) / "include").exists()), pathlib.Path("/nowhere"))
    found = [check(folder, "runtime/devices/cuda/cublaslt.h", "DT_CUBLASLT_NUMBERS", "cublasLt.h"),
             check(folder, "runtime/devices/cuda/cudnn.h", "DT_CUDNN_NUMBERS", "cudnn.h")]
    for name, good in zip(("cuBLASLt", "cuDNN"), found):
        if good is None:
            print(f"skipped: the header of {name} is not installed")
    return 0 if all(found) else 77


if __name__ == "__main__":
    sys.exit(main())
