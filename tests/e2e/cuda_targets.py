"""Which GPUs code is made for: by name, each once; by default those that NVRTC knows. The NVRTC is one of version 12.4 that makes no code
(tests/support/fake_nvrtc.c), so that nothing needs to be installed."""
import json
import os
import pathlib
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
