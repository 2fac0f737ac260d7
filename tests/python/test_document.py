"""docs/python.md is what the docstrings say, and what it shows runs."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
DOCUMENT = (SOURCE / "docs/python.md").read_text()


def test_document_is_up_to_date():
    done = subprocess.run([sys.executable, SOURCE / "scripts/python_document.py"], capture_output=True, text=True, check=True)
    assert done.stdout == DOCUMENT, "PYTHONPATH=build/python python3 scripts/python_document.py > docs/python.md"


def test_what_it_shows_runs(tmp_path):
    """All of its Python, in order, in one process; signatures below headings are none."""
    shown = re.findall(r"^```python\n(.*?)^```", DOCUMENT.split("\n## ")[0], re.MULTILINE | re.DOTALL)
    assert len(shown) >= 2
    shutil.copytree(SOURCE / "examples", tmp_path / "examples")
    done = subprocess.run([sys.executable, "-c", "\n".join(shown)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 ")
