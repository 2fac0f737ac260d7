#!/usr/bin/env bash
# setup.sh: installs what the benchmarks run beside: OpenBLAS and oneDNN, Debian's packages, and bench/peers/.venv, the Python environment of
# the other frameworks. A few minutes and 8 GB of disk, most of it the CUDA libraries that PyTorch brings along.
#
# The environment is one of its own because nothing that is built or shipped here needs it: only the side-by-side benchmarks
# and whoever makes the numbers of tests/golden/ again. KerasHub comes without its dependencies: of these only tokenizers need
# tensorflow-text.
#
# Does nothing where the environment already holds what requirements.txt asks for. PYTHON chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")"

../../scripts/install.sh libopenblas-dev libdnnl-dev || echo "setup.sh: going on without OpenBLAS and oneDNN" >&2
if [ -f .venv/complete ] && cmp -s requirements.txt .venv/complete; then
    echo "bench/peers/.venv is up to date"
    exit 0
fi
if ! "${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "setup.sh: this Python cannot make environments: apt-get install python3-venv" >&2
    exit 1
fi
"${PYTHON:-python3}" -m venv --clear .venv
.venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements.txt
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps keras-hub==0.32.0
.venv/bin/python - <<'PYTHON'
from importlib.metadata import version
print("bench/peers/.venv:", ", ".join(f"{p} {version(p)}" for p in ("tensorflow-cpu", "jax", "keras", "keras-hub", "torch", "numpy", "safetensors")))
PYTHON
cp requirements.txt .venv/complete
