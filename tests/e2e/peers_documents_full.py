"""docs/from-keras.md and docs/from-pytorch.md: the code for the other framework runs, on images that are made up, and the program beside it has as many
trainable parameters."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
PAIR = re.compile(r"^```python\n(.*?)^```\n\n```dt program (\w+\.dt)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COUNT = {"from-keras.md": "sum(int(np.prod(v.shape)) for v in model.trainable_variables)",
         "from-pytorch.md": "sum(p.numel() for p in model.parameters() if p.requires_grad)"}
DATA = """
import numpy as np
draw = np.random.default_rng(0)
x_train, x_test = (draw.integers(0, 256, (n, 28, 28), dtype=np.uint8) for n in (256, 64))
y_train, y_test = (draw.integers(0, 10, n, dtype=np.uint8) for n in (256, 64))
"""


def main():
    subprocess.run([SOURCE / "bench/peers/setup.sh"], check=True)
    python = SOURCE / "bench/peers/.venv/bin/python"
    for page, count in COUNT.items():
        pairs = PAIR.findall((SOURCE / "docs" / page).read_text())
        assert len(pairs) == 3, page
        for code, name, program in pairs:
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / name
                path.write_text(program)
                summary = subprocess.run(["dtc", "summary", path], capture_output=True, text=True, check=True).stdout
                own = int(re.search(r"([\d,]+) trainable", summary)[1].replace(",", ""))
                done = subprocess.run([python, "-c", f"{DATA}\n{code}\nprint('parameters', {count})"], capture_output=True, text=True,
                                      env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}, timeout=600)
                assert done.returncode == 0, f"{page}, beside {name}:\n{done.stderr}"
                theirs = int(done.stdout.split("parameters ")[1])
                assert own == theirs, f"{page}: {name} has {own:,} trainable parameters, the code beside it {theirs:,}"
    return 0


sys.exit(main())
