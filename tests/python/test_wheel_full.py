"""scripts/wheel.sh makes a wheel that an empty environment takes: the example trains there. Its types are checked, and the notebook is run with it."""
import os
import pathlib
import re
import subprocess
import venv

import pytest

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The python of an environment that has the wheel, and nothing of the build."""
    folder = tmp_path_factory.mktemp("wheel")
    run(SOURCE / "scripts/wheel.sh", folder / "dist")
    (wheel,) = (folder / "dist").iterdir()
    assert wheel.name.startswith("dt_train-") and wheel.name.endswith("-cp311-abi3-manylinux_2_36_x86_64.whl")
    venv.create(folder / "v", with_pip=True)
    python = folder / "v/bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return python


def without_build():
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LD_LIBRARY_PATH")}


def test_example_trains(environment, tmp_path):
    shown = run(environment, SOURCE / "examples/python/train.py", cwd=tmp_path, env=without_build())
    assert "epoch 2" in shown and "are recognised" in shown


def test_types(environment, tmp_path):
    run(environment, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "mypy")
    (tmp_path / "use.py").write_text('import dt\n\nreveal_type(dt.open("m.dtx").session().step("train"))\n'
                                     'for report in dt.open("m.dtx").session().train(epochs=2):\n    reveal_type(report)\n')
    shown = run(environment, "-m", "mypy", "--strict", tmp_path / "use.py", cwd=tmp_path, env=without_build())
    assert re.search(r':3: .* type is "(builtins\.)?dict\[(builtins\.)?str, Any\]"', shown) and re.search(r':5: .* type is "dt\.training\.Report"', shown)
    run(environment, "-m", "mypy", "--strict", "--ignore-missing-imports", "-p", "dt", cwd=tmp_path, env=without_build())
    (tmp_path / "wrong.py").write_text('import dt\n\ndt.open("m.dtx").session(replicas="2")\n')
    done = subprocess.run([environment, "-m", "mypy", "--strict", tmp_path / "wrong.py"], capture_output=True, text=True, cwd=tmp_path, env=without_build())
    assert done.returncode == 1 and "replicas" in done.stdout


def test_limited_api(environment):
    run(environment, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "abi3audit")
    run(environment, "-m", "abi3audit", "--strict", next((environment.parents[2] / "dist").iterdir()))


def test_notebooks(environment, tmp_path):
    run(environment, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "nbclient", "ipykernel", "tqdm")
    script = ("import nbclient, nbformat, sys\n"
              "book = nbformat.read(sys.argv[1], as_version=4)\n"
              "nbclient.NotebookClient(book, timeout=600, kernel_name='python3').execute()\n"
              "print([output.get('data', output) for cell in book.cells if cell.cell_type == 'code' for output in cell.outputs])\n")
    for book, texts in ("train", ("dense_1", "<svg", "evaluate.accuracy", "matmul")), ("arrays", ("dense_2", "<svg", "evaluate.accuracy")):
        shown = run(environment, "-c", script, SOURCE / f"examples/python/{book}.ipynb", cwd=tmp_path, env={**without_build(), "DT_SOURCE": str(SOURCE)})
        for text in texts:
            assert text in shown, book
