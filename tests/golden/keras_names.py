"""keras_names: makes keras_names.txt, what Keras 3 lists: the public classes and functions of its modules, a line for each, under its first name.
Metrics are listed by metrics.py.

    bench/peers/.venv/bin/python tests/golden/keras_names.py             a few seconds
"""

import inspect
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras

MODULES = ("layers", "activations", "losses", "optimizers", "optimizers.schedules", "initializers", "regularizers", "constraints")
HELPERS = ("get", "serialize", "deserialize")  # of saved models

lines = [f"# Keras {keras.__version__}"]
for module in MODULES:
    found = keras
    for part in module.split("."):
        found = getattr(found, part)
    seen = set()
    # Classes before functions: where both are listed the function is the class's.
    objects = [(name, getattr(found, name)) for name in sorted(dir(found)) if not name.startswith("_") and name not in HELPERS]
    for name, value in sorted(objects, key=lambda pair: (not inspect.isclass(pair[1]), pair[0])):
        plain = name.replace("_", "").lower()
        if not (inspect.isclass(value) or inspect.isfunction(value)) or value in seen or plain in seen:
            continue
        seen |= {value, plain}
        lines.append(f"{module}.{name}")
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "keras_names.txt"), "w") as file:
    file.write("\n".join(lines) + "\n")
