"""A PyTorch DataLoader, a tf.data.Dataset and JAX's arrays feed a session: tests/support/python_frameworks.py, in the environment of bench/peers."""
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])


def test_frameworks():
    subprocess.run([SOURCE / "bench/peers/setup.sh"], check=True)
    subprocess.run([SOURCE / "bench/peers/.venv/bin/python", SOURCE / "tests/support/python_frameworks.py"], check=True)
