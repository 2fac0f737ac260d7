"""Which GPUs code is made for: by name, each once; by default those that NVRTC knows. And what dtrun says
of an artifact that is for others, or for fewer rows, makes one that is as before otherwise. The NVRTC is one of version 12.4 that makes no code
(tests/support/fake_nvrtc.c), so that nothing needs to be installed."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])


def compile_for(target, artifact, code=0):
    """What dtc says; and, where it made one, that dtrun reads the artifact."""
    done = subprocess.run(["dtc", "compile", "--target", target, "-o", artifact, SOURCE / "examples/perceptron.dt"], capture_output=True, text=True)
    assert done.returncode == code, f"--target {target}: exit {done.returncode}\n{done.stderr}"
    if code == 0:
        info = subprocess.run(["dtrun", "info", artifact], capture_output=True, text=True)
        assert info.returncode == 0, f"--target {target}: {info.stderr}"
    return done.stderr


def architectures(artifact):
    with zipfile.ZipFile(artifact) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    first = [m["architecture"] for m in manifest["cuda"]["modules"] if m["unit"] == 0]
    assert manifest["flags"][0] == "--target cuda:" + ",".join(first), manifest["flags"]
    return first


def run_suggested(artifact, flags, run_flags):
    """Compiles with `flags`, runs what must be refused, then the command that the message suggests; returns the new artifact's flags."""
    subprocess.run(["dtc", "compile", *flags, "-o", artifact, "perceptron.dt"], cwd=SOURCE / "examples", check=True)
    refused = subprocess.run(["dtrun", "bench", artifact, *run_flags], capture_output=True, text=True)
    command = re.search(r": (dtc compile .*)\n", refused.stderr)
    assert refused.returncode == 1 and command, refused.stderr
    artifact.unlink()
    subprocess.run(command[1], shell=True, cwd=SOURCE / "examples", check=True)
    with zipfile.ZipFile(artifact) as archive:
        return sorted(json.loads(archive.read("manifest.json"))["flags"])


def suggestions(artifact):
    os.environ["DT_CUDA_DRIVER"] = str(pathlib.Path(os.environ["DT_BUILD"]) / "tests/libfake_cuda.so")
    os.environ["FAKE_CUDA_CAPABILITY"] = "9.0"
    own = ["--batch", "8", "--precision", "tf32", "--target", "cuda:sm_80", "--cpu", "x86-64-v3", "-O", "no-split"]
    kept = ["--cpu x86-64-v3", "--precision tf32", "-O no-split"]
    for run_flags, changed in ((["--global-batch", "32"], ["--batch 32", "--target cuda:sm_80"]),
                               (["--devices", "cuda:0", "--global-batch", "8"], ["--batch 8", "--target cuda:sm_90"])):
        made = run_suggested(artifact, own, run_flags)
        assert made == sorted(kept + changed), f"{run_flags}: {made}"
    assert run_suggested(artifact, ["--batch", "8"], ["--devices", "cuda:0", "--global-batch", "8"]) == ["--batch 8", "--target cuda:sm_80,sm_90,compute_90"]


def main():
    os.environ["DT_NVRTC"] = str(pathlib.Path(os.environ["DT_BUILD"]) / "tests/libfake_nvrtc.so")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(pathlib.Path(folder) / "cache")
        artifact = pathlib.Path(folder) / "p.dtx"
        for target, made in (("cuda", ["sm_80", "sm_90", "compute_90"]),
                             ("cuda:sm_90,sm_90", ["sm_90"]),
                             ("cuda:sm_90,compute_80,sm_80,sm_90,compute_80", ["sm_90", "compute_80", "sm_80"]),
                             ("cuda:sm_90a,sm_90", ["sm_90a", "sm_90"])):
            compile_for(target, artifact)
            assert architectures(artifact) == made, f"--target {target}: {architectures(artifact)}"
            artifact.unlink()
        for target, code, says in (("cuda:sm_90,sm_100", 1, "NVRTC 12.4 makes no code for sm_100; it knows sm_50, "),
                                   ("cuda:sm_80a", 1, "NVRTC 12.4 makes no code for sm_80a; it does for sm_80"),
                                   ("cuda:compute_90f", 1, "NVRTC 12.4 makes no code for compute_90f; it does for compute_90"),
                                   ("cuda:sm_090", 2, '"sm_090" is no architecture'),
                                   ("cuda:sm_90b", 2, '"sm_90b" is no architecture'),
                                   ("cuda:", 2, '"" is no architecture')):
            error = compile_for(target, artifact, code)
            assert says in error and len(error.splitlines()) <= 2, f"--target {target}: {error}"
            assert not artifact.exists(), target
        suggestions(artifact)
    return 0


if __name__ == "__main__":
    sys.exit(main())
