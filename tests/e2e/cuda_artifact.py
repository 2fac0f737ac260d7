"""An artifact with code for GPUs: its members, what the manifest says of them, and that the CPU runs it as before.

Needs NVRTC (the environment variable DT_NVRTC, the system, or a toolkit); skipped without.
"""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])


def run(*command, code=0):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def check_members(archive, manifest):
    cuda = manifest["cuda"]
    names = set(archive.namelist())
    assert cuda["text"] in names and cuda["compiler"].startswith("NVRTC 1"), cuda["compiler"]
    architectures = {module["architecture"] for module in cuda["modules"]}
    assert architectures == {"sm_90", "compute_90"}, architectures
    for text in manifest["texts"]:
        assert hashlib.sha256(archive.read(text["file"])).hexdigest() == text["sha256"], text
    for module in cuda["modules"]:
        data = archive.read(module["file"])
        assert hashlib.sha256(data).hexdigest() == module["sha256"], module["file"]
        assert data[:4] == b"\x7fELF" if module["file"].endswith(".cubin") else b".version" in data, module["file"]


def check_calls(archive, manifest):
    """Every kernel of every function is called by functions that stand in the text and in a module of their unit."""
    cuda = manifest["cuda"]
    text = archive.read(cuda["text"]).decode()
    ptx = {module["unit"]: archive.read(module["file"]).decode() for module in cuda["modules"] if module["architecture"] == "compute_90"}
    assert [f["name"] for f in cuda["functions"]] == [f["name"] for f in manifest["functions"]]
    n_calls, libraries = 0, set()
    for function in cuda["functions"]:
        for kernel in function["plan"]["kernels"]:
            assert kernel["calls"], kernel["name"]
            for call in kernel["calls"]:
                n_calls += 1
                assert f" {call['function']}(" in text, call
                assert f".entry {call['function']}(" in ptx[call["unit"]], call
                assert all(0 <= a < len(kernel["buffers"]) for a in call["arguments"]), call
                if "library" in call:
                    libraries.add(call["library"]["class"])
                assert call["threads"] == 256 and call["team"] in (1, 32, 256) and call["items"] >= 0, call
    assert n_calls > 10 and libraries == {"product"}, libraries


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        artifact, plain, program = folder / "p.dtx", folder / "plain.dtx", SOURCE / "examples/perceptron.dt"
        missing = subprocess.run(["dtc", "compile", "--target", "cuda:sm_90,compute_90", "-o", artifact, program], capture_output=True, text=True)
        if "NVRTC, the compiler of CUDA C++, is not installed" in missing.stderr:
            print("skipped:", missing.stderr.strip())
            return 77
        assert missing.returncode == 0, missing.stderr
        with zipfile.ZipFile(artifact) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            check_members(archive, manifest)
            check_calls(archive, manifest)
        (folder / "sum.dt").write_text("step predict(x: f32[B, 4]) {\n    return y: sum(x, axes: 1)\n}\n")
        said = run("dtc", "compile", "--target", "cuda:sm_90,compute_90", "-o", folder / "sum.dtx", folder / "sum.dt")
        assert said == "", f"nothing crosses replicas, and NVRTC warns: {said}"
        run("dtc", "compile", "-o", plain, program)
        with zipfile.ZipFile(plain) as archive:
            without = json.loads(archive.read("manifest.json"))
        added = ("cuda", "flags", "texts")
        assert {k: v for k, v in manifest.items() if k not in added} == {k: v for k, v in without.items() if k not in added}
        assert manifest["texts"][:-2] == without["texts"] and [text["file"] for text in manifest["texts"][-2:]] == ["cuda.cu", "cuda-plan.txt"]
        info = run("dtrun", "info", artifact)
        assert "cuBLASLt can do 7 of the " in info and "cuDNN" not in info, info
        assert "steps" in run("dtrun", "bench", artifact, "--steps", "2")
        plan = run("dtc", "compile", "--target", "cuda:sm_90", "--emit=plan", program)
        assert "registers" in plan and "train_1_matmul" in plan and "cuBLASLt can do" in plan, plan
        assert re.search(r"\n  reduce_replicas +256 threads +\d+ registers +\d+ bytes shared +0 on the stack +0 spilled, +0 reloaded\n", plan), plan
        n_files = len(list((folder / "cache" / "dtc" / "cuda").iterdir()))
        assert run("dtc", "compile", "--target", "cuda:sm_90", "--emit=plan", program) == plan, "the cache has another account"
        assert len(list((folder / "cache" / "dtc" / "cuda").iterdir())) == n_files
        os.environ["DT_NVRTC"] = "/nowhere/libnvrtc.so"
        assert "/nowhere/libnvrtc.so" in run("dtc", "compile", "--target", "cuda", "-o", artifact, program, code=1)
        assert "is not known: DT_NVRTC" in run("dtc", "compile", "--target", "cuda", "--emit=plan", program)
        assert "is no architecture" in run("dtc", "compile", "--target", "cuda:90", program, code=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
