"""The front end warns of none of the programs that come with dt: examples, and what tests and benchmarks run. (Those of documents: language_examples.py.)"""
import os
import pathlib
import subprocess
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
FOLDERS = ("examples", "tests/programs", "tests/twins", "tests/gpu", "bench")


def told(program):
    done = subprocess.run(["dtc", "compile", "--emit=ir", program], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, text=True)
    assert done.returncode == 0, f"{program}: {done.stderr}"
    return done.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "warned.dt")
        path.write_text("option width = 3\nstep predict(x: f32[B]) { return y: x }\n")
        assert "[never-read]" in told(path)
    programs = [program for folder in FOLDERS for program in sorted((SOURCE / folder).rglob("*.dt"))]
    assert len(programs) > 25
    wrong = "".join(map(told, programs))
    assert not wrong, wrong
    print(f"{len(programs)} programs")


if __name__ == "__main__":
    main()
