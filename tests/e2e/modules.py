"""Modules beside a program: found there, used in circles; the artifact says what it was made of, for make and ninja, and its hash is theirs too. A file with
the name of a module of the library is a program of its own: those beside it are warned, and compile as without it."""
import pathlib
import subprocess
import tempfile

LAYERS = """use nn, my_numbers

option units = 4
layer block(x: float[B, C]) { return relu(dense(x, units: units * factor)) }
fn halved(x) { return x / 2 }
step predict(x: f32[B, 4]) { return never: undefined_here }
"""
NUMBERS = """use my_layers

const factor = 2
fn quartered(x) { return halved(halved(x)) }
"""
PROGRAM = """use my_layers, nn
use my_numbers

model Net(x: f32[B, 8]) { return dense(block(x), units: 3) }
fn halved(x) { return x / 3 }
step predict(x: f32[B, 8]) { return y: quartered(Net(x)), z: halved(x), w: my_layers.halved(x) }
"""


def run(*arguments, folder, code=0):
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def source_hash(folder, name):
    return run("unzip", "-p", name, "manifest.json", folder=folder).split('"source_hash":')[1].split(",")[0]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "of $my programs"
        folder.mkdir()
        (folder / "my_layers.dt").write_text(LAYERS)
        (folder / "my_numbers.dt").write_text(NUMBERS)
        (folder / "net.dt").write_text(PROGRAM)
        one = ["--cpu=x86-64-v3", "--batch=2"]
        run("dtc", "compile", "net.dt", "-o", "net.dtx", "--depfile", "net.d", *one, folder=folder)
        assert (folder / "net.d").read_text() == "net.dtx: net.dt my_layers.dt my_numbers.dt\n"
        graph = run("dtc", "compile", "net.dt", "--emit=ir", folder=folder)
        assert "f32[8, 8]" in graph and "f32[8, 3]" in graph, graph

        other = pathlib.Path(name)
        path = folder / "net.dt"
        assert run("dtc", "compile", path, "--emit=ir", folder=other) == graph
        run("dtc", "compile", path, "-o", "a#b.ir", "--emit=ir", "--depfile", "net.d", folder=other)
        escaped = str(folder).replace(" ", "\\ ").replace("$", "$$")
        wanted = " ".join(f"{escaped}/{one}.dt" for one in ("net", "my_layers", "my_numbers"))
        assert (other / "net.d").read_text() == f"a\\#b.ir: {wanted}\n", (other / "net.d").read_text()

        before = source_hash(folder, "net.dtx")
        (folder / "my_numbers.dt").write_text(NUMBERS.replace("factor = 2", "factor = 3"))
        run("dtc", "compile", "net.dt", "-o", "net.dtx", *one, folder=folder)
        assert source_hash(folder, "net.dtx") != before
        assert "f32[8, 12]" in run("dtc", "compile", "net.dt", "--emit=ir", folder=folder)

        wrong = run("dtc", "compile", "net.dt", "--emit=ir", "--depfile", "net.d", folder=folder, code=1)
        assert "name it with --output" in wrong, wrong
        wrong = run("dtc", "compile", "net.dt", "-o", "x.dtx", "--depfile", "net.dt", *one, folder=folder, code=1)
        assert "would overwrite" in wrong and (folder / "net.dt").read_text() == PROGRAM, wrong
        (folder / "my_numbers.dt").write_text(NUMBERS.replace("2", "factor"))
        wrong = run("dtc", "compile", "net.dt", "--emit=ir", folder=folder, code=1)
        assert wrong.startswith("my_numbers.dt:3:7: error: factor is defined by itself"), wrong
        (folder / "my_numbers.dt").unlink()
        (folder / "my_numbers.dt").mkdir()
        wrong = run("dtc", "compile", "net.dt", "--emit=ir", folder=folder, code=1)
        assert wrong.startswith("net.dt:2:5: error: my_numbers.dt: cannot read"), wrong


NAMESAKE = """use losses

step predict(x: f32[B, 4]) { return y: mean_squared_error(x, x) }
"""
BESIDE = """use nn
use losses

step predict(x: f32[B, 4]) { return y: mean_squared_error(x, relu(x)) }
"""


def namesakes():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "beside.dt").write_text(BESIDE)
        alone = run("dtc", "compile", "beside.dt", "--emit=ir", folder=folder)
        (folder / "losses.dt").write_text(NAMESAKE)
        for program, warnings in (("beside.dt", ["beside.dt:2:5: warning: losses is the library's module, not the file losses.dt [namesake]"]), ("losses.dt", [])):
            done = subprocess.run(["dtc", "compile", program, "--emit=ir"], cwd=folder, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
            assert [line for line in done.stderr.splitlines() if ": warning: " in line] == warnings, done.stderr
            assert program == "losses.dt" or done.stdout == alone


if __name__ == "__main__":
    namesakes()
    main()
