"""perceptron_step: how long one training step of examples/perceptron.dt takes in JAX.

The same model (784-128-10), loss, optimizer and metrics; jax.jit with donated state, batches ready on the device. The process is held
to as many cores as it has threads. A step is timed from call to the loss being read; the median over steps is what is compared.

    bench/peers/.venv/bin/python bench/peers/perceptron_step.py [--batch 32] [--threads 1] [--steps 50]

Prints one JSON object a line, as cnn_step.py does.
"""

import os

import harness

HIDDEN = 128
CLASSES = 10
LEARNING_RATE = 0.1


def jax_step(batches):
    """(version, step): step(i) trains on batch i and returns its loss as a float."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp

    def objective(p, image, label):
        x = image.reshape(image.shape[0], -1).astype(jnp.float32) / 255
        logits = jax.nn.relu(x @ p["dense/kernel"] + p["dense/bias"]) @ p["dense_1/kernel"] + p["dense_1/bias"]
        label = label.astype(jnp.int32)
        loss = -jnp.take_along_axis(jax.nn.log_softmax(logits), label[:, None], axis=1).mean()
        return loss, (logits.argmax(axis=1) == label).mean()

    def train(p, image, label):
        (loss, accuracy), g = jax.value_and_grad(objective, has_aux=True)(p, image, label)
        return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, p, g), loss, accuracy

    glorot = jax.nn.initializers.glorot_uniform()
    keys = jax.random.split(jax.random.key(0))
    state = [
        {
            "dense/kernel": glorot(keys[0], (784, HIDDEN)),
            "dense/bias": jnp.zeros(HIDDEN),
            "dense_1/kernel": glorot(keys[1], (HIDDEN, CLASSES)),
            "dense_1/bias": jnp.zeros(CLASSES),
        }
    ]
    tensors = [(jnp.asarray(image), jnp.asarray(label)) for image, label in batches]
    compiled = jax.jit(train, donate_argnums=0)

    def step(i):
        state[0], loss, _ = compiled(state[0], *tensors[i])
        return float(loss)

    return jax.__version__, step


def main():
    parser = harness.parser(__doc__, batch=32, threads=1)
    arguments = parser.parse_args()
    harness.hold_to_cores(parser, arguments.threads)
    version, step = jax_step(harness.read_batches(arguments.data, arguments.batch))
    harness.print_line("jax", version, "perceptron", arguments, harness.measure(step, arguments.steps))


if __name__ == "__main__":
    main()
