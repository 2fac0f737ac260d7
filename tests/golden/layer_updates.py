"""layer_updates: what Keras 3 computes for cases of layers: values, gradients, and three updates. convolutions.py and recurrent.py have the cases.

By Keras on JAX in f64, from inputs that are exact in f32, as layers.py does it; results are rounded to f32 once. The metadata `cases` is a list of
{"name", "call", "arguments", "shape" of an example, "weights"}, spelled as in the language; of a case NAME there are the tensors

    NAME/input [9, …], NAME/cotangent, NAME/WEIGHT     given
    NAME/output, NAME/gradient/input                   of all nine rows; the gradient of sum(output * cotangent)
    NAME/gradient/WEIGHT, NAME/updated/WEIGHT [3, …]   the same gradient; the weight after each of three updates by gradient descent, of three rows
                                                       each, at RATE, where the loss of a row is the sum of squares of output - cotangent
"""

import json
import os

from layers import jax, keras, normal  # first: it chooses Keras's backend
import numpy as np
from safetensors.numpy import save_file

KERAS_NAMES = {"kernel": "kernel_size", "stride": "strides", "dilation": "dilation_rate"}
RATE, ROWS, UPDATES = 0.02, 3, 3


def keras_layer(keras_class, arguments):
    return keras_class(**{KERAS_NAMES.get(name, name): value for name, value in arguments.items()})


def name_of(variable):
    """The weight's path below the layer."""
    *outer, _, name = ["", *variable.path.split("/")]
    directions = {"forward": "", "backward": "_1"}  # of bidirectional, whose parts are two calls of one layer
    for part in outer:
        direction, _, kind = part.partition("_")
        if direction in directions:
            return f"{kind.rstrip('_0123456789')}{directions[direction]}/{name}"
    return name


def tensors_of(make_layer, shape, arguments):
    """Of one case: its tensors by name, and the names of its weights."""
    arguments = dict(arguments)
    masked = arguments.pop("mask", None) is not None
    layer = make_layer(**arguments) if not isinstance(make_layer, type) else keras_layer(make_layer, arguments)
    layer.build((ROWS, *shape))
    names = [name_of(v) for v in layer.trainable_variables]
    given = [normal(*v.shape, scale=0.5) for v in layer.trainable_variables]  # not the initial ones: a wrong bias must show

    @jax.jit
    def forward(weights, x):
        keywords = {"mask": x[:, :, 0] > 0} if masked else {}
        return layer.stateless_call(weights, [v.value for v in layer.non_trainable_variables], x, **keywords)[0]

    x = normal(ROWS * UPDATES, *shape)
    output, pullback = jax.vjp(forward, given, x)
    cotangent = normal(*output.shape)
    of_weights, of_input = pullback(jax.numpy.asarray(cotangent))
    slope = jax.jit(jax.grad(lambda weights, x, target: jax.numpy.sum((forward(weights, x) - target) ** 2) / ROWS))
    weights, updated = given, []
    for i in range(UPDATES):
        rows = slice(ROWS * i, ROWS * (i + 1))
        weights = [w - RATE * g for w, g in zip(weights, slope(weights, x[rows], cotangent[rows]))]
        updated.append(weights)
    tensors = {"input": x, "output": output, "cotangent": cotangent, "gradient/input": of_input}
    for i, name in enumerate(names):
        tensors |= {name: given[i], "gradient/" + name: of_weights[i], "updated/" + name: np.stack([weights[i] for weights in updated])}
    return tensors, names


def make(file, cases):
    """Writes FILE.safetensors of rows (name, call, Keras's class or a function that makes the layer, the shape of an example, arguments)."""
    index, tensors = [], {}
    for name, call, make_layer, shape, arguments in cases:
        found, weights = tensors_of(make_layer, shape, arguments)
        index.append({"name": name, "call": call, "arguments": arguments, "shape": shape, "weights": weights})
        tensors |= {f"{name}/{path}": np.ascontiguousarray(np.asarray(t), dtype=np.float32) for path, t in found.items()}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{file}.safetensors")
    made_with = f"Keras {keras.__version__}, JAX {jax.__version__}, NumPy {np.__version__}"
    save_file(tensors, path, metadata={"cases": json.dumps(index), "made_with": made_with})
    print(f"{len(index)} cases, {os.path.getsize(path)} bytes")
