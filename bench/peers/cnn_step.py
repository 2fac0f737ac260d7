"""cnn_step: how long one training step of examples/fashion_cnn.dt takes in TensorFlow and in JAX.

The same model, loss, optimizer and metrics at the same global batch, in the mode in which each framework is fastest on a
CPU: a tf.function of the Keras model, and jax.jit with donated state. The process is held to as many cores as it has
threads. A step is timed from call to the loss being read; the median over steps is what is compared.

    bench/peers/.venv/bin/python bench/peers/cnn_step.py [--peer tensorflow|jax] [--batch 128] [--threads 2] [--steps 50]

Prints one JSON object a line:
    {"peer": "tensorflow", "version": "2.21.0", "model": "fashion_cnn", "global_batch": 128, "threads": 2, "steps": 50,
     "step_ms": MEDIAN, "step_ms_low": 10TH PERCENTILE, "step_ms_high": 90TH PERCENTILE, "first_loss": …, "last_loss": …}
"""

import argparse
import gzip
import json
import os
import statistics
import time

import numpy as np

FILTERS = (64, 128)
KERNEL = 3
CLASSES = 10
DROPOUT = 0.5
LEARNING_RATE = 1e-3
N_BATCHES = 16  # different batches that the steps go round over
N_WARMUP = 10


def read_idx(path):
    """The array in a gzip-compressed IDX file of unsigned bytes."""
    with gzip.open(path) as file:
        raw = file.read()
    n_dims = raw[3]
    shape = np.frombuffer(raw, ">u4", n_dims, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * n_dims).reshape(shape)


def read_batches(folder, batch):
    """[(image u8[batch, 28, 28], label u8[batch])], the first N_BATCHES of the training set."""
    images = read_idx(os.path.join(folder, "train-images-idx3-ubyte.gz"))
    labels = read_idx(os.path.join(folder, "train-labels-idx1-ubyte.gz"))
    return [(images[i * batch : (i + 1) * batch], labels[i * batch : (i + 1) * batch]) for i in range(N_BATCHES)]


def tensorflow_step(batches, threads):
    """(version, step): step(i) trains on batch i and returns its loss as a float."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(FILTERS[0], KERNEL, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Conv2D(FILTERS[1], KERNEL, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dropout(DROPOUT),
            keras.layers.Dense(CLASSES),
        ]
    )
    crossentropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(LEARNING_RATE)
    optimizer.build(model.trainable_variables)

    @tf.function
    def train(image, label):
        with tf.GradientTape() as tape:
            logits = model(tf.cast(image, tf.float32)[..., tf.newaxis], training=True)
            loss = crossentropy(label, logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        hit = tf.equal(tf.argmax(logits, axis=1), tf.cast(label, tf.int64))
        return loss, tf.reduce_mean(tf.cast(hit, tf.float32))

    tensors = [(tf.constant(image), tf.constant(label)) for image, label in batches]
    return tf.__version__, lambda i: float(train(*tensors[i])[0])


def jax_step(batches, threads):
    """(version, step) as above. XLA takes its number of threads from the cores that the process may use."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    from jax import lax

    def conv2d(x, kernel, bias):
        return lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias

    def max_pool2d(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def cnn(p, image, key):
        x = image.astype(jnp.float32)[..., None] / 255
        x = max_pool2d(jax.nn.relu(conv2d(x, p["conv2d/kernel"], p["conv2d/bias"])))
        x = max_pool2d(jax.nn.relu(conv2d(x, p["conv2d_1/kernel"], p["conv2d_1/bias"])))
        x = x.reshape(x.shape[0], -1)
        x = jnp.where(jax.random.bernoulli(key, 1 - DROPOUT, x.shape), x / (1 - DROPOUT), 0)
        return x @ p["dense/kernel"] + p["dense/bias"]

    def objective(p, image, label, key):
        logits = cnn(p, image, key)
        label = label.astype(jnp.int32)
        loss = -jnp.take_along_axis(jax.nn.log_softmax(logits), label[:, None], axis=1).mean()
        return loss, (logits.argmax(axis=1) == label).mean()

    def train(state, image, label):
        p, m, v, t, key = state
        key, mask_key = jax.random.split(key)
        (loss, accuracy), g = jax.value_and_grad(objective, has_aux=True)(p, image, label, mask_key)
        t = t + 1
        rate = LEARNING_RATE * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        m = jax.tree.map(lambda m, g: m + (g - m) * (1 - 0.9), m, g)
        v = jax.tree.map(lambda v, g: v + (g * g - v) * (1 - 0.999), v, g)
        p = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-7), p, m, v)
        return (p, m, v, t, key), loss, accuracy

    shapes = {
        "conv2d/kernel": (KERNEL, KERNEL, 1, FILTERS[0]),
        "conv2d/bias": (FILTERS[0],),
        "conv2d_1/kernel": (KERNEL, KERNEL, FILTERS[0], FILTERS[1]),
        "conv2d_1/bias": (FILTERS[1],),
        "dense/kernel": (5 * 5 * FILTERS[1], CLASSES),
        "dense/bias": (CLASSES,),
    }
    glorot = jax.nn.initializers.glorot_uniform()
    keys = jax.random.split(jax.random.key(0), len(shapes))
    p = {n: glorot(k, s) if len(s) > 1 else jnp.zeros(s) for k, (n, s) in zip(keys, shapes.items())}
    zeros = [jax.tree.map(jnp.zeros_like, p) for _ in range(2)]
    state = [(p, *zeros, jnp.float32(0), jax.random.key(1))]
    tensors = [(jnp.asarray(image), jnp.asarray(label)) for image, label in batches]
    compiled = jax.jit(train, donate_argnums=0)

    def step(i):
        state[0], loss, _ = compiled(state[0], *tensors[i])
        return float(loss)

    return jax.__version__, step


def measure(step, n_steps):
    """(milliseconds of each step after the warm-up, first loss, last loss)."""
    first = step(0)
    for i in range(1, N_WARMUP):
        step(i % N_BATCHES)
    times = []
    for i in range(N_WARMUP, N_WARMUP + n_steps):
        start = time.perf_counter()
        last = step(i % N_BATCHES)
        times.append(1e3 * (time.perf_counter() - start))
    return times, first, last


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=["tensorflow", "jax"], default="tensorflow")
    parser.add_argument("--batch", type=int, default=128, help="the global batch (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="and cores (%(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="timed steps (%(default)s)")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="folder of the IDX files (%(default)s)")
    arguments = parser.parse_args()

    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < arguments.threads:
        parser.error(f"--threads {arguments.threads}, but this process may use {len(cores)} cores")
    os.sched_setaffinity(0, cores[: arguments.threads])  # before a framework counts them

    batches = read_batches(arguments.data, arguments.batch)
    prepare = {"tensorflow": tensorflow_step, "jax": jax_step}[arguments.peer]
    version, step = prepare(batches, arguments.threads)
    times, first, last = measure(step, arguments.steps)
    tenths = statistics.quantiles(times, n=10)
    print(
        json.dumps(
            {
                "peer": arguments.peer,
                "version": version,
                "model": "fashion_cnn",
                "global_batch": arguments.batch,
                "threads": arguments.threads,
                "steps": arguments.steps,
                "step_ms": round(statistics.median(times), 3),
                "step_ms_low": round(tenths[0], 3),
                "step_ms_high": round(tenths[-1], 3),
                "first_loss": round(first, 5),
                "last_loss": round(last, 5),
            }
        )
    )


if __name__ == "__main__":
    main()
