"""Every example that compiles for the CPU compiles for GPUs of all default architectures, and NVRTC has nothing to say but of spilled registers.

Needs NVRTC; skipped without.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])


def main():
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for program in sorted((SOURCE / "examples").glob("*.dt")):
            if subprocess.run(["dtc", "compile", "-o", f"{folder}/p.dtx", program], capture_output=True).returncode != 0:
                print(f"{program.name}: does not compile yet")
                continue
            done = subprocess.run(["dtc", "compile", "--target", "cuda", "-o", f"{folder}/p.dtx", program], capture_output=True, text=True)
            if "NVRTC, the compiler of CUDA C++, is not installed" in done.stderr:
                print("skipped:", done.stderr.strip())
                return 77
            assert done.returncode == 0, f"{program.name}: {done.stderr}"
            strange = [line for line in done.stderr.splitlines() if line.startswith("warning: sm_") and "spilled" not in line]
            assert not strange, strange
            print(f"{program.name}: {done.stderr.count('spilled')} functions spill registers")
            n += 1
    assert n >= 5, n
    return 0


if __name__ == "__main__":
    sys.exit(main())
