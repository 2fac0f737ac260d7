"""What README.md shows in C++ and in Python does what it says, on its own program, with arrays where it says that there are some."""
import gzip
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, BUILD = (pathlib.Path(os.environ[name]) for name in ("DT_SOURCE", "DT_BUILD"))
README = (SOURCE / "README.md").read_text()

CPP = """
#include <cstdio>
#include <vector>
HEADERS
int main() {
    std::vector<unsigned char> image(64 * 28 * 28, 100), label(64, 3);
    BODY
    std::printf("%.4f\\n", loss);
}
"""


def block(language):
    found, = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return found


def run(*command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=dict(os.environ, **environment))
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def write_images(folder):
    for prefix, n in ("train", 256), ("t10k", 64):
        for name, shape, value in ("images-idx3", (n, 28, 28), 100), ("labels-idx1", (n,), 3):
            dims = b"".join(d.to_bytes(4, "big") for d in shape)
            (folder / f"{prefix}-{name}-ubyte.gz").write_bytes(gzip.compress(bytes([0, 0, 8, len(shape)]) + dims + bytes([value]) * math.prod(shape), 1))


def in_cpp(folder):
    lines = block("cpp").splitlines()
    headers, body = ("\n".join(line for line in lines if line.startswith("#") == is_header) for is_header in (True, False))
    (folder / "app.cpp").write_text(CPP.replace("HEADERS", headers).replace("BODY", body))
    run("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", folder / "app.cpp", "-o", folder / "app", f"-I{SOURCE}/include", f"-L{BUILD}",
        f"-Wl,-rpath,{BUILD}", "-ldtc", "-ldtrt")
    assert 0 < float(run(folder / "app")) < 10


def in_python(folder):
    text = block("python").replace("/usr/share/datasets/fashion-mnist", str(folder))
    arrays = "import numpy\nimages, labels = numpy.full((64, 28, 28), 100, numpy.uint8), numpy.full(64, 3, numpy.uint8)\n"
    said = run(sys.executable, "-c", arrays + text + "print(loss)", PYTHONPATH=str(BUILD / "python"))
    assert [line.split()[1] for line in said.splitlines() if line.startswith("epoch")] == list("12345"), said
    assert 0 <= float(said.splitlines()[-1]) < 10, said


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    os.chdir(folder)
    (folder / "m.dt").write_text(re.search(r"^```dt program\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[1])
    write_images(folder)
    in_cpp(folder)
    in_python(folder)
