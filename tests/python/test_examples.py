"""The examples that need no data run, and leave what they say."""
import json
import os
import pathlib
import subprocess
import sys

EXAMPLES = pathlib.Path(os.environ["DT_SOURCE"]) / "examples/python"


def run(folder, *command):
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arrays_are_trained_plotted_saved_and_served(tmp_path):
    shown = run(tmp_path, EXAMPLES / "arrays.py", tmp_path / "out")
    asked, answered = shown.splitlines()[-1].removeprefix("asked for ").split(" it answers ")
    assert asked.rstrip() == answered and shown.count("epoch ") < 60
    assert "evaluate" in (tmp_path / "out/report.html").read_text() and list((tmp_path / "out/model").glob("step-*"))


def test_callbacks_stop_and_log(tmp_path):
    shown = run(tmp_path, EXAMPLES / "callbacks.py", tmp_path / "out")
    assert "stopped" in shown and "'end': 1" in shown
    page = (tmp_path / "out/report.html").read_text()
    assert "kernel/sum" in page and "data:image/png" in page


def test_the_cells_of_the_notebook(tmp_path):
    cells = ["".join(cell["source"]) for cell in json.loads((EXAMPLES / "arrays.ipynb").read_text())["cells"] if cell["cell_type"] == "code"]
    assert run(tmp_path, "-c", "\n\n".join(cells[:-1]) + f"\n\nprint({cells[-1]})").strip() > "0.95"
