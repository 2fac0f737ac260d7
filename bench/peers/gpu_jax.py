"""gpu_jax: JAX's training of examples/fashion_cnn.dt and perceptron.dt on a GPU: see gpu_harness.py for what is asked and answered.

jax.jit of the whole step with donated state, called once a step, or of an epoch's steps as one lax.scan, called once. All data lie in the GPU's
memory before the clock runs, shuffled there; no loss is read within an epoch.
"""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.25")  # of the GPU's memory, taken at once: the others need some too

import gpu_harness as harness
import jax
import jax.numpy as jnp
from jax import lax

if jax.default_backend() != "gpu":
    raise SystemExit("this JAX has no GPU")
PRECISION = {"f32": "highest", "tf32": "tensorfloat32", "bf16": "bfloat16"}


def shapes_of(name):
    if name == "perceptron":
        return {"dense": (784, 128), "dense/bias": (128,), "dense_1": (128, 10), "dense_1/bias": (10,)}
    return {"conv": (3, 3, 1, 64), "conv/bias": (64,), "conv_1": (3, 3, 64, 128), "conv_1/bias": (128,), "dense": (3200, 10), "dense/bias": (10,)}


class Training:
    def __init__(self, data, name, batch, precision, whole_epochs):
        self.name, self.batch, self.precision, self.whole_epochs, self.n_epochs = name, batch, precision, whole_epochs, 0
        self.images, self.labels, self.test_images, self.test_labels = (jax.device_put(array) for array in data)
        glorot = jax.nn.initializers.glorot_uniform()
        shapes = shapes_of(name)
        keys = jax.random.split(jax.random.key(0), len(shapes))
        p = {n: glorot(k, s) if len(s) > 1 else jnp.zeros(s) for k, (n, s) in zip(keys, shapes.items())}
        self.state = (p, *(jax.tree.map(jnp.zeros_like, p) for _ in range(2)), jnp.float32(0), jax.random.key(1))
        jax.config.update("jax_default_matmul_precision", PRECISION[precision])
        self.train = jax.jit(self.step, donate_argnums=0)
        self.train_epoch = jax.jit(self.steps, donate_argnums=0, static_argnums=4)
        self.evaluate = jax.jit(lambda p, image, label: (self.logits(p, image, None).argmax(1) == label).mean())
        begin = jax.tree.map(jnp.copy, self.state)
        for _ in range(2):  # the second one takes what the first one gives, which may be compiled anew
            self.epoch(warm_up=True)
            self.accuracy()
        self.state, self.n_epochs = begin, 0

    def logits(self, p, image, key):
        kind = jnp.bfloat16 if self.precision == "bf16" else jnp.float32
        p = jax.tree.map(lambda x: x.astype(kind), p)
        x = (image.astype(jnp.float32) / 255).astype(kind)
        if self.name == "perceptron":
            x = jax.nn.relu(x.reshape(x.shape[0], -1) @ p["dense"] + p["dense/bias"])
            return (x @ p["dense_1"] + p["dense_1/bias"]).astype(jnp.float32)
        x = x[..., None]
        for layer in ("conv", "conv_1"):
            x = lax.conv_general_dilated(x, p[layer], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + p[f"{layer}/bias"]
            x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = x.reshape(x.shape[0], -1)
        if key is not None:
            x = jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x / 0.5, 0)
        return (x @ p["dense"] + p["dense/bias"]).astype(jnp.float32)

    def step(self, state, images, labels, order, i):
        p, m, v, t, key = state
        chosen = lax.dynamic_slice(order, (i * self.batch,), (self.batch,))
        image, label = images[chosen], labels[chosen].astype(jnp.int32)
        key, mask_key = jax.random.split(key)

        def objective(p):
            logits = self.logits(p, image, mask_key)
            loss = -jnp.take_along_axis(jax.nn.log_softmax(logits), label[:, None], axis=1).mean()
            return loss, (logits.argmax(axis=1) == label).mean()

        (loss, accuracy), g = jax.value_and_grad(objective, has_aux=True)(p)
        if self.name == "perceptron":
            return (jax.tree.map(lambda p, g: p - 0.1 * g, p, g), m, v, t, key), loss, accuracy
        t = t + 1
        rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        m = jax.tree.map(lambda m, g: m + (g - m) * (1 - 0.9), m, g)
        v = jax.tree.map(lambda v, g: v + (g * g - v) * (1 - 0.999), v, g)
        p = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-7), p, m, v)
        return (p, m, v, t, key), loss, accuracy

    def steps(self, state, images, labels, order, n):
        def one(state, i):
            state, loss, _ = self.step(state, images, labels, order, i)
            return state, loss

        return lax.scan(one, state, jnp.arange(n))

    def epoch(self, warm_up=False):
        """Whole batches; returns how many images that were, when they are done."""
        order = jax.random.permutation(jax.random.fold_in(jax.random.key(2), self.n_epochs), len(self.images))
        n = harness.n_steps(len(order), self.batch, warm_up and not self.whole_epochs)  # an epoch of another length would be compiled anew
        self.n_epochs += 1
        if self.whole_epochs:
            self.state, loss = self.train_epoch(self.state, self.images, self.labels, order, n)
        else:
            for i in range(n):
                self.state, loss, _ = self.train(self.state, self.images, self.labels, order, i)
        jax.block_until_ready((self.state[0], loss))
        return n * self.batch

    def accuracy(self):
        parts = [slice(i, i + 1000) for i in range(0, len(self.test_images), 1000)]
        return float(sum(self.evaluate(self.state[0], self.test_images[part], self.test_labels[part]) for part in parts) / len(parts))


def make(*asked):
    return {"a call a step": Training(*asked, whole_epochs=False), "a call an epoch": Training(*asked, whole_epochs=True)}


harness.serve("jax", jax.__version__, make)
