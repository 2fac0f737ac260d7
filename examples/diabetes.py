#!/usr/bin/env python3
"""Writes the data of own_parts.dt into a folder:

    examples/diabetes.py FOLDER

numbers.csv    442 patients (Efron, Hastie, Johnstone, Tibshirani, "Least angle regression", 2004): the first eight features of scikit-learn's diabetes
               set, and how far the disease was a year later; each column with mean 0 and standard deviation 1. The numbers are taken out of PyPI's
               scikit-learn, which pip fetches (9 MB) and does not install
"""
import gzip
import pathlib
import statistics
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "scikit-learn"
FEATURES = ("age", "sex", "body_mass", "pressure", "cholesterol", "low_density", "high_density", "ratio")


def fetch():
    """Columns of numbers, the target last."""
    with tempfile.TemporaryDirectory() as downloads:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", downloads, PACKAGE]
        if subprocess.run(command).returncode != 0:
            sys.exit(f"diabetes.py: {' '.join(command)} failed")
        with zipfile.ZipFile(next(pathlib.Path(downloads).glob("*.whl"))) as wheel:
            parts = [gzip.decompress(wheel.read(f"sklearn/datasets/data/diabetes_{part}.csv.gz")).decode() for part in ("data_raw", "target")]
    rows = [[float(number) for number in (*line.split()[: len(FEATURES)], target)] for line, target in zip(*map(str.splitlines, parts))]
    return list(zip(*rows))


def standardized(column):
    mean, deviation = statistics.fmean(column), statistics.pstdev(column)
    return [(number - mean) / deviation for number in column]


if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
lines = [",".join((*FEATURES, "progression"))]
lines += [",".join(f"{number:.5f}" for number in row) for row in zip(*map(standardized, fetch()))]
(folder / "numbers.csv").write_text("\n".join(lines) + "\n")
