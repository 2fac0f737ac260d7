"""layers: makes layers/, what Keras 3 computes for each layer, activation, loss, optimizer and schedule of the library.

    bench/peers/.venv/bin/python tests/golden/layers.py             half a minute

Keras runs on JAX in f64, from inputs that are exact in f32; every result is rounded to f32 once. So a test's tolerance is for
the error of the program under test alone. README.md beside this file has the format; what a case's tensors are is said at
`layer`, `function`, `loss`, `trajectory` and `schedule` below.

Inputs are drawn without ties and away from the kinks of relu and of max pooling, where a gradient is a matter of convention.
"""

import json
import os
import platform
import shutil

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"
import jax
import keras
import numpy as np
from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
keras.config.set_floatx("float64")
BIT64_TO_BIT32_DTYPE["float64"] = "float64"  # Keras on JAX takes f64 for f32 in tanh, sqrt, power, … whatever floatx says

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers")
KERAS_NAMES = {
    **{"kernel": "kernel_size", "stride": "strides", "size": "pool_size", "slope": "negative_slope", "keep": "keepdims"},
    **{"rows": "input_dim", "width": "output_dim"},
}
OWN_NAMES = {"embeddings": "table"}  # what the library calls a parameter
RATE, UPDATES = 0.1, 3
random = np.random.RandomState(20240617)
cases = []


def normal(*shape, scale=1.0):
    """Random numbers that are exact in f32, as f64; none is nearer to 0 than 1e-3."""
    x = random.standard_normal(shape) * scale
    x = np.where(np.abs(x) < 1e-3, 1e-3, x)
    return x.astype(np.float32).astype(np.float64)


def distinct(*shape):
    """A shuffled arithmetic progression through 0: no two elements are nearer than 0.01."""
    n = int(np.prod(shape))
    return (random.permutation(n).reshape(shape) * 0.01 - n * 0.005).astype(np.float32).astype(np.float64)


def keep(name, kind, call, arguments, tensors, **more):
    """Adds a case: its row of the index, and its tensors."""
    assert name not in [row["name"] for row, _ in cases], name
    rounded = {}
    for path, t in tensors.items():
        t = np.asarray(t)
        assert t.dtype in (np.float64, np.int32), f"{name}: {path} is {t.dtype}: Keras left f64"
        rounded[path] = np.ascontiguousarray(t if t.dtype == np.int32 else t.astype(np.float32))
        assert np.isfinite(rounded[path]).all(), f"{name}: {path}"
    shapes = {path: {"dtype": "i32" if t.dtype == np.int32 else "f32", "shape": t.shape} for path, t in rounded.items()}
    cases.append(({"name": name, "kind": kind, "call": call, "arguments": arguments, **more, "tensors": shapes}, rounded))


def descent(objective, weights, rate):
    """Each of the weights [3, …] after three updates by gradient descent of `objective`, a function of them."""
    slope, after = jax.jit(jax.grad(objective)), []
    for _ in range(UPDATES):
        weights = [w - rate * g for w, g in zip(weights, slope(weights))]
        after.append(weights)
    return [np.stack(of_one) for of_one in zip(*after)]


def shifted(objective, x, rate):
    """The same of a shift of the input, one for all rows, that begins at 0; `objective` is a function of the input."""
    return descent(lambda weights: objective(x + weights[0]), [np.zeros(x.shape[1:])], rate)[0]


def trained(f, parameters, names, x, cotangent):
    """Tensors of three updates by the mean of squares of f(parameters, x) - cotangent: of the parameters, or where there are none of a shift of the
    input; and their rate."""
    objective = lambda parameters, x: jax.numpy.mean((f(parameters, x) - cotangent) ** 2)
    if parameters:
        after = descent(lambda weights: objective(weights, x), parameters, RATE)
        return {f"updated/{name}": t for name, t in zip(names, after)}, RATE
    rate = RATE * cotangent[0].size  # each element of the input moves few of the output
    return {"updated/shift": shifted(lambda x: objective([], x), x, rate)}, rate


def layer(name, call, x, keras_class, training=False, names=KERAS_NAMES, **arguments):
    """A layer of one input; the library's arguments become Keras's by `names` alone.

    input, parameter/NAME, state/NAME -> output
    cotangent                         -> gradient/input, where that is f32, gradient/NAME: of sum(output * cotangent)
    rate                              -> updated/NAME, or updated/shift, see `trained`; in training also new_state/NAME [3, …]
    """
    keras_layer = keras_class(**{names.get(n, n): value for n, value in arguments.items()})
    keras_layer.build(x.shape)
    for v in keras_layer.weights:  # not the initial ones: a wrong bias or scale must show
        positive = v.path.endswith(("gamma", "scale", "moving_variance"))
        v.assign(np.abs(normal(*v.shape)) + 0.5 if positive else normal(*v.shape, scale=0.5))
    name_of = lambda v: OWN_NAMES.get(v.name, v.name)
    parameters = [v.value for v in keras_layer.trainable_variables]
    states = [v.value for v in keras_layer.non_trainable_variables]
    keyword = {"training": training} if states else {}
    both = lambda p, states, x: keras_layer.stateless_call(p, states, x, **keyword)
    forward = lambda p, x: both(p, states, x)[0]
    output, pullback = jax.vjp(forward, parameters, x)
    cotangent = normal(*output.shape)
    of_parameters, of_input = pullback(jax.numpy.asarray(cotangent))
    tensors = {"input": x, "output": output, "cotangent": cotangent}
    if x.dtype == np.float64:
        tensors["gradient/input"] = of_input
    for v, value, gradient in zip(keras_layer.trainable_variables, parameters, of_parameters):
        tensors |= {"parameter/" + name_of(v): value, "gradient/" + name_of(v): gradient}
    new_states = [states]
    for _ in range(UPDATES if training else 0):  # statistics of the input, on which the parameters have no influence
        new_states.append(both(parameters, new_states[-1], x)[1])
    for v, *old_and_new in zip(keras_layer.non_trainable_variables, *new_states):
        tensors["state/" + name_of(v)] = old_and_new[0]
        if training:
            tensors["new_state/" + name_of(v)] = np.stack(old_and_new[1:])
    if states:
        arguments = arguments | {"training": training}
    updated, rate = trained(forward, parameters, [name_of(v) for v in keras_layer.trainable_variables], x, cotangent)
    keep(name, "layer", call, arguments, tensors | updated, rate=rate)


def function(name, call, f, x, **arguments):
    """An activation: input -> output; cotangent -> gradient/input, of sum(output * cotangent); rate -> updated/shift."""
    output, pullback = jax.vjp(f, x)
    cotangent = normal(*output.shape)
    (of_input,) = pullback(jax.numpy.asarray(cotangent))
    tensors = {"input": x, "output": output, "cotangent": cotangent, "gradient/input": of_input}
    updated, rate = trained(lambda _, x: f(x), [], [], x, cotangent)
    keep(name, "function", call, arguments, tensors | updated, rate=rate)


def loss(name, call, f, target, x, rate=0.5, **arguments):
    """A loss, unreduced: target, input -> output, one number an example; cotangent -> gradient/input; rate -> updated/shift, by the mean of the loss."""
    output, pullback = jax.vjp(lambda x: f(target, x), x)
    cotangent = normal(*output.shape)
    (of_input,) = pullback(jax.numpy.asarray(cotangent))
    tensors = {"target": target, "input": x, "output": output, "cotangent": cotangent, "gradient/input": of_input}
    tensors["updated/shift"] = shifted(lambda x: jax.numpy.mean(f(target, x)), x, rate)
    keep(name, "loss", call, arguments, tensors, rate=rate)


def trajectory(name, call, optimizer, shape=(3, 4), clip=None, **arguments):
    """An optimizer: gradients [5, ...] -> parameters [6, ...], the values before the first update and after each.

    What the library expects of a schedule is an object {"call": …, "arguments": …} in the place of the learning rate; `clip` is one of a function of the
    gradients.
    """
    gradients = normal(5, *shape)
    parameter = keras.Variable(normal(*shape))
    parameters = [parameter.numpy()]
    optimizer.build([parameter])
    for g in gradients:
        optimizer.apply([jax.numpy.asarray(g)], [parameter])
        parameters.append(parameter.numpy())
    keep(name, "optimizer", call, arguments, {"gradients": gradients, "parameters": np.stack(parameters)}, **({"clip": clip} if clip else {}))


def schedule(name, call, f, n, **arguments):
    """A schedule: output [n], its value at update counts 0 … n - 1."""
    keep(name, "schedule", call, arguments, {"output": np.stack([np.asarray(f(i), np.float64) for i in range(n)])})


def dense_and_convolution():
    dense, conv2d = keras.layers.Dense, keras.layers.Conv2D
    layer("dense", "dense", normal(3, 5), dense, units=4)
    layer("dense_one_unit", "dense", normal(2, 9), dense, units=1)
    layer("dense_no_bias", "dense", normal(3, 5), dense, units=4, use_bias=False)
    layer("dense_relu", "dense", normal(5, 7), dense, units=3, activation="relu")
    layer("dense_sequence", "dense", normal(2, 3, 5), dense, units=4)
    for kernel in (1, 2, 3, 5):
        for stride in (1, 2):
            for padding in ("valid", "same"):
                channels, filters = {1: (8, 3), 2: (3, 2), 3: (3, 8), 5: (1, 3)}[kernel]
                layer(
                    f"conv2d_{kernel}x{kernel}_stride_{stride}_{padding}",
                    "conv2d",
                    normal(2, 7, 6, channels),
                    conv2d,
                    filters=filters,
                    kernel=kernel,
                    stride=stride,
                    padding=padding,
                )
    layer("conv2d_stride_3_same", "conv2d", normal(1, 8, 7, 2), conv2d, filters=3, kernel=3, stride=3, padding="same")
    layer("conv2d_stride_over_kernel", "conv2d", normal(2, 7, 5, 2), conv2d, filters=2, kernel=1, stride=3, padding="valid")
    layer("conv2d_no_bias", "conv2d", normal(2, 5, 5, 3), conv2d, filters=2, kernel=3, padding="same", use_bias=False)
    layer("conv2d_relu", "conv2d", normal(2, 5, 5, 1), conv2d, filters=4, kernel=3, activation="relu")
    layer("conv2d_1x1_image", "conv2d", normal(3, 1, 1, 8), conv2d, filters=3, kernel=3, padding="same")


def pooling():
    for call, keras_class in (("max_pool2d", keras.layers.MaxPooling2D), ("average_pool2d", keras.layers.AveragePooling2D)):
        for size, stride in ((2, 2), (3, 2), (3, 1), (2, 3)):
            for padding in ("valid", "same"):
                name = f"{call}_{size}x{size}_stride_{stride}_{padding}"
                layer(name, call, distinct(2, 7, 6, 3), keras_class, size=size, stride=stride, padding=padding)
        layer(f"{call}_default", call, distinct(2, 5, 5, 1), keras_class, size=2)
    layer("flatten", "flatten", normal(2, 3, 2, 2), keras.layers.Flatten)


def normalisation():
    batch_norm, layer_norm = keras.layers.BatchNormalization, keras.layers.LayerNormalization
    for shape in ((6, 4), (3, 2, 3, 5), (7, 1)):
        for training in (True, False):
            name = f"batch_norm_rank_{len(shape)}_of_{shape[-1]}_{'training' if training else 'inference'}"
            layer(name, "batch_norm", normal(*shape) + 0.5, batch_norm, training=training)
    layer("batch_norm_arguments", "batch_norm", normal(5, 3), batch_norm, training=True, momentum=0.9, epsilon=1e-5)
    layer("layer_norm", "layer_norm", normal(4, 6) + 0.5, layer_norm)
    layer("layer_norm_sequence", "layer_norm", normal(2, 3, 5), layer_norm)
    layer("layer_norm_epsilon", "layer_norm", normal(3, 7, scale=0.01), layer_norm, epsilon=1e-6)


def activations():
    a = keras.activations
    wide = np.concatenate([normal(4, 7), normal(2, 7, scale=6.0)])
    for call in ("relu", "tanh", "sigmoid"):
        function(call, call, getattr(a, call), wide)
    function("gelu", "gelu", lambda x: a.gelu(x, approximate=False), wide)
    function("gelu_approximate", "gelu", lambda x: a.gelu(x, approximate=True), wide, approximate=True)
    function("leaky_relu", "leaky_relu", lambda x: a.leaky_relu(x, negative_slope=0.2), wide, slope=0.2)
    function("leaky_relu_slope", "leaky_relu", lambda x: a.leaky_relu(x, negative_slope=0.01), wide, slope=0.01)
    function("softmax", "softmax", a.softmax, wide)
    function("softmax_rank_3", "softmax", a.softmax, normal(2, 3, 5))
    function("softmax_large", "softmax", a.softmax, normal(4, 6, scale=80.0))


def losses():
    crossentropy = lambda y, x: keras.losses.sparse_categorical_crossentropy(y, x, from_logits=True)
    label = lambda *shape: random.randint(0, 5, shape).astype(np.int32)
    call = "sparse_categorical_crossentropy"
    loss(call, call, crossentropy, label(6), normal(6, 5))
    loss(call + "_sequence", call, crossentropy, label(2, 3), normal(2, 3, 5))
    loss(call + "_large", call, crossentropy, label(6), normal(6, 5, scale=80.0))
    smooth = lambda y, x: keras.losses.categorical_crossentropy(jax.nn.one_hot(y, 5), x, from_logits=True, label_smoothing=0.1)
    loss(call + "_label_smoothing", call, smooth, label(6), normal(6, 5), label_smoothing=0.1)
    squared = keras.losses.mean_squared_error
    loss("mean_squared_error", "mean_squared_error", squared, normal(6, 5), normal(6, 5))
    loss("mean_squared_error_of_one", "mean_squared_error", squared, normal(7, 1), normal(7, 1))


def optimizers_and_schedules():
    o, s = keras.optimizers, keras.optimizers.schedules
    trajectory("sgd", "sgd", o.SGD(0.1), learning_rate=0.1)
    trajectory("sgd_momentum", "sgd", o.SGD(0.1, momentum=0.9), learning_rate=0.1, momentum=0.9)
    trajectory("sgd_nesterov", "sgd", o.SGD(0.1, momentum=0.9, nesterov=True), learning_rate=0.1, momentum=0.9, nesterov=True)
    trajectory("sgd_weight_decay", "sgd", o.SGD(0.1, weight_decay=0.02), learning_rate=0.1, weight_decay=0.02)
    every = {"learning_rate": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4}
    trajectory("sgd_every_argument", "sgd", o.SGD(**every), **every)
    trajectory("adam", "adam", o.Adam())
    arguments = {"learning_rate": 0.01, "beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}
    trajectory("adam_arguments", "adam", o.Adam(**arguments), **arguments)
    trajectory("adamw", "adamw", o.AdamW())
    trajectory("adamw_weight_decay", "adamw", o.AdamW(0.01, weight_decay=0.1), learning_rate=0.01, weight_decay=0.1)
    cosine = {"call": "cosine_decay", "arguments": {"initial": 0.1, "steps": 4}}
    trajectory("sgd_cosine_decay", "sgd", o.SGD(s.CosineDecay(0.1, 4)), learning_rate=cosine)
    trajectory("adam_cosine_decay", "adam", o.Adam(s.CosineDecay(0.1, 4)), learning_rate=cosine)
    schedule("constant", "constant", lambda i: 0.05, 3, initial=0.05)
    schedule("cosine_decay", "cosine_decay", s.CosineDecay(0.1, 10), 13, initial=0.1, steps=10)
    schedule("cosine_decay_floor", "cosine_decay", s.CosineDecay(0.2, 7, alpha=0.1), 9, initial=0.2, steps=7, floor=0.02)


def made_with():
    return {"python": platform.python_version(), "keras": keras.__version__, "jax": jax.__version__, "numpy": np.__version__}


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    for make in (dense_and_convolution, pooling, normalisation, activations, losses, optimizers_and_schedules):
        make()
    for row, tensors in cases:
        save_file(tensors, os.path.join(FOLDER, row["name"] + ".safetensors"))
    with open(os.path.join(FOLDER, "index.json"), "w") as file:
        lines = ",\n".join("  " + json.dumps(row) for row, _ in cases)
        file.write(f'{{\n "made_with": {json.dumps(made_with())},\n "cases": [\n{lines}\n ]\n}}\n')
    print(f"{len(cases)} cases, {sum(e.stat().st_size for e in os.scandir(FOLDER))} bytes in {FOLDER}")


if __name__ == "__main__":
    main()
