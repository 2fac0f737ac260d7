"""cnn_step: how long one training step of examples/fashion_cnn.dt takes in TensorFlow, in JAX and in PyTorch.

The same model, loss, optimizer and metrics at the same global batch, in the mode in which each framework is fastest on a
CPU: a tf.function of the Keras model, jax.jit with donated state, torch.compile with channels last. The process is held to as many cores as it has
threads. A step is timed from call to the loss being read; the median over steps is what is compared.

    bench/peers/.venv/bin/python bench/peers/cnn_step.py [--peer tensorflow|jax|compile] [--batch 128] [--threads 2] [--steps 50]
    bench/peers/.venv/bin/python bench/peers/cnn_step.py --epoch      TensorFlow: one pass over the 60,000 images, from tf.data

Prints one JSON object a line:
    {"peer": "tensorflow", "version": "2.21.0", "model": "fashion_cnn", "global_batch": 128, "threads": 2, "steps": 50,
     "first_step_seconds": SINCE THE PROCESS BEGAN, "first_loss": …,
     "step_ms": MEDIAN, "step_ms_low": 10TH PERCENTILE, "step_ms_high": 90TH PERCENTILE,
     "compile_seconds": THE FIRST STEP LESS THE MEDIAN, "compile_processor_seconds": THE SAME OF PROCESSOR TIME,
     "losses": [THE FIRST ONES], "last_loss": …}
or, of an epoch, "steps", "epoch_seconds" and its mean "loss".
"""

import os
import time

import harness

FILTERS = (64, 128)
KERNEL = 3
CLASSES = 10
DROPOUT = 0.5
LEARNING_RATE = 1e-3


def tensorflow_model(threads):
    """(tensorflow, train): train(image, label) is a tf.function that returns (loss, accuracy)."""
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

    return tf, train


def tensorflow_step(batches, threads):
    """(version, step): step(i) trains on batch i and returns its loss as a float."""
    tf, train = tensorflow_model(threads)
    tensors = [(tf.constant(image), tf.constant(label)) for image, label in batches]
    return tf.__version__, lambda i: float(train(*tensors[i])[0])


def tensorflow_epoch(folder, batch, threads):
    """(version, what an epoch took): read, shuffled, batched and prefetched by tf.data, for a step traced once for batches of any size. The loss
    is summed in TensorFlow and read at the end. A loop over batches in the graph is no faster than this one."""
    images, labels = harness.read_training_set(folder)
    tf, train = tensorflow_model(threads)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).batch(batch).prefetch(tf.data.AUTOTUNE)
    step = train.get_concrete_function(*data.element_spec)

    def run(data):
        steps, total = 0, 0.0
        for image, label in data:
            steps, total = steps + 1, total + step(image, label)[0]
        return steps, float(total)

    run(data.take(harness.N_WARMUP))
    start = time.perf_counter()
    steps, total = run(data)
    return tf.__version__, {"steps": steps, "epoch_seconds": round(time.perf_counter() - start, 3), "loss": round(total / steps, 5)}


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


def torch_step(batches, threads):
    """(version, step) as above, compiled."""
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    convolutions = [layer for i, filters in enumerate(FILTERS) for layer in (nn.Conv2d((1, *FILTERS)[i], filters, KERNEL), nn.ReLU(), nn.MaxPool2d(2))]
    model = nn.Sequential(*convolutions, nn.Flatten(), nn.Dropout(DROPOUT), nn.Linear(5 * 5 * FILTERS[1], CLASSES)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, eps=1e-7, fused=True)

    def loss_of(image, label):
        logits = model((image[:, None].float() / 255).contiguous(memory_format=torch.channels_last))
        return nn.functional.cross_entropy(logits, label), (logits.argmax(1) == label).float().mean()

    tensors = [(torch.tensor(image), torch.tensor(label).long()) for image, label in batches]
    return torch.__version__, harness.torch_step(harness.torch_compiled(torch, loss_of), optimizer, tensors)


def main():
    parser = harness.parser(__doc__, batch=128, threads=2)
    parser.add_argument("--peer", choices=["tensorflow", "jax", "compile"], default="tensorflow")
    parser.add_argument("--epoch", action="store_true", help="an epoch in place of steps; TensorFlow only")
    arguments = parser.parse_args()
    if arguments.epoch and arguments.peer != "tensorflow":
        parser.error("--epoch is TensorFlow's")
    harness.hold_to_cores(parser, arguments.threads)
    if arguments.epoch:
        version, measured = tensorflow_epoch(arguments.data, arguments.batch, arguments.threads)
    else:
        prepare = {"tensorflow": tensorflow_step, "jax": jax_step, "compile": torch_step}[arguments.peer]
        version, step = prepare(harness.read_batches(arguments.data, arguments.batch), arguments.threads)
        measured = harness.measure(step, arguments.steps)
    harness.print_line(arguments.peer, version, "fashion_cnn", arguments, measured)


if __name__ == "__main__":
    main()
