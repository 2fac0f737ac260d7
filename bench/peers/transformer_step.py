"""transformer_step: how long a training step of examples/bert_mlm.dt or gpt.dt takes in TensorFlow, JAX and PyTorch.

The same model with dropout, loss and optimizer at the same batch, masked tokens given; each framework in the modes that people use on a CPU:
TensorFlow's graph, the same through XLA, jax.jit with donated state, PyTorch as it is and compiled. What is written once for TensorFlow and JAX is in
keras.ops, which call one function of the framework each; PyTorch's is tests/golden/transformers_torch.py. A step is timed from call to the loss being
read; the median over steps is what is compared.

    bench/peers/.venv/bin/python bench/peers/transformer_step.py --model bert|gpt --peer tensorflow|xla|jax|torch|compile
        [--context 512] [--predictions 96] [--layers 2] [--batch 8]

Prints a JSON object as cnn_step.py does.
"""

import math
import os
import pathlib
import sys

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests/golden"))
import transformers

RATE = 0.1
N_BATCHES = 4
DECAY, EPSILON = {"bert": 0.004, "gpt": 0.1}, 1e-7
LEARNING_RATE = 1e-4


class Model:
    """In keras.ops, of parameters by path; `dropout(x)` is the framework's."""

    def __init__(self, keras, sizes, dropout):
        self.ops, self.sizes, self.dropout = keras.ops, sizes, dropout

    def dense(self, p, path, x):
        return self.ops.matmul(x, p[f"{path}/kernel"]) + p[f"{path}/bias"]

    def layer_norm(self, p, path, x):
        mean, variance = self.ops.moments(x, axes=[-1], keepdims=True)
        return (x - mean) * self.ops.rsqrt(variance + 1e-3) * p[f"{path}/gamma"] + p[f"{path}/beta"]

    def gelu(self, x):
        return self.ops.gelu(x, approximate=False)

    def attention(self, q, k, v, seen):
        ops, heads = self.ops, self.sizes["heads"]
        batch, length, width = q.shape
        q, k, v = (ops.transpose(ops.reshape(t, (batch, length, heads, width // heads)), (0, 2, 1, 3)) for t in (q, k, v))
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * (1 / math.sqrt(width // heads))
        weights = ops.softmax(ops.where(seen, scores, -1e9))
        y = ops.matmul(self.dropout(weights) if self.sizes["program"] == "bert_mlm" else weights, v)
        return ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (batch, length, width))

    def crossentropy(self, logits, label):
        shifted = logits - self.ops.stop_gradient(self.ops.max(logits, axis=-1, keepdims=True))
        return self.ops.logsumexp(shifted, axis=-1) - self.ops.squeeze(self.ops.take_along_axis(shifted, label[..., None], axis=-1), -1)

    def bert_loss(self, p, masked, position, label, weight):
        ops = self.ops
        x = ops.take(p["Bert/table"], masked, axis=0) + p["Bert/position"][: masked.shape[1]] + p["Bert/segment"][0]
        x = self.dropout(self.layer_norm(p, "Bert/layer_norm", x))
        for i in range(self.sizes["layers"]):
            path = f"Bert/encoder{transformers.suffix(i)}"
            q, k, v = (self.dense(p, f"{path}/multi_head_attention/{name}", x) for name in ("query", "key", "value"))
            y = self.dense(p, f"{path}/multi_head_attention/output", self.attention(q, k, v, (masked != 0)[:, None, None, :]))
            x = self.layer_norm(p, f"{path}/layer_norm", x + self.dropout(y))
            y = self.dense(p, f"{path}/dense_1", self.gelu(self.dense(p, f"{path}/dense", x)))
            x = self.layer_norm(p, f"{path}/layer_norm_1", x + self.dropout(y))
        y = ops.take_along_axis(x, position[:, :, None], axis=1)
        y = self.layer_norm(p, "MaskedLm/layer_norm", self.gelu(self.dense(p, "MaskedLm/dense", y)))
        loss = self.crossentropy(ops.matmul(y, ops.transpose(p["Bert/table"])) + p["MaskedLm/bias"], label) * weight
        return ops.sum(loss) / math.prod(label.shape)

    def gpt_loss(self, p, text):
        ops, token = self.ops, self.ops.cast(text, "int32")
        given, label = token[:, :-1], token[:, 1:]
        length = given.shape[1]
        x = ops.take(p["Gpt/table"], given, axis=0) + p["Gpt/position"]
        seen = ops.arange(length)[:, None] >= ops.arange(length)
        for i in range(self.sizes["layers"]):
            path = f"Gpt/block{transformers.suffix(i)}"
            q, k, v = ops.split(self.dense(p, f"{path}/attention/dense", self.layer_norm(p, f"{path}/layer_norm", x)), 3, axis=-1)
            x = x + self.dropout(self.dense(p, f"{path}/attention/dense_1", self.attention(q, k, v, seen)))
            y = self.gelu(self.dense(p, f"{path}/dense", self.layer_norm(p, f"{path}/layer_norm_1", x)))
            x = x + self.dropout(self.dense(p, f"{path}/dense_1", y))
        logits = ops.matmul(self.layer_norm(p, "Gpt/layer_norm", x), ops.transpose(p["Gpt/table"]))
        return ops.mean(self.crossentropy(logits, label))


def is_trained(path):
    return "pooled_dense" not in path


def tensorflow_step(model, sizes, weights, batches, threads, jit):
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    p = {path: tf.Variable(array) for path, array in weights.items() if is_trained(path)}
    m, v = ({path: tf.Variable(tf.zeros_like(x)) for path, x in p.items()} for _ in range(2))
    count = tf.Variable(0.0)
    loss_of = getattr(Model(keras, sizes, lambda x: tf.nn.dropout(x, RATE)), f"{model}_loss")

    @tf.function(jit_compile=jit)
    def train(*batch):
        with tf.GradientTape() as tape:
            loss = loss_of({path: x.read_value() for path, x in p.items()}, *batch)
        gradients = dict(zip(p, tape.gradient(loss, list(p.values()))))
        if model == "gpt":
            clipped, _ = tf.clip_by_global_norm([tf.convert_to_tensor(g) for g in gradients.values()], 1.0)
            gradients = dict(zip(p, clipped))
        count.assign_add(1.0)
        alpha = LEARNING_RATE * tf.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        for path, x in p.items():
            g = tf.convert_to_tensor(gradients[path])
            x.assign_sub(LEARNING_RATE * DECAY[model] * x)
            m[path].assign_add((g - m[path]) * (1 - 0.9))
            v[path].assign_add((g * g - v[path]) * (1 - 0.999))
            x.assign_sub(alpha * m[path] / (tf.sqrt(v[path]) + EPSILON))
        return loss

    tensors = [[tf.constant(array) for array in batch] for batch in batches]
    return tf.__version__, lambda i: float(train(*tensors[i % N_BATCHES]))


def jax_step(model, sizes, weights, batches, threads):
    os.environ["JAX_PLATFORMS"], os.environ["KERAS_BACKEND"] = "cpu", "jax"
    import jax
    import jax.numpy as jnp
    import keras

    jax.config.update("jax_default_prng_impl", "unsafe_rbg")  # the fastest there is

    def train(state, *batch):
        p, m, v, t, key = state
        key, own = jax.random.split(key)
        keys = [own]

        def dropout(x):
            keys[0], k = jax.random.split(keys[0])
            return jnp.where(jax.random.bernoulli(k, 1 - RATE, x.shape), x / (1 - RATE), 0)

        loss, g = jax.value_and_grad(getattr(Model(keras, sizes, dropout), f"{model}_loss"))(p, *batch)
        if model == "gpt":
            norm = jnp.sqrt(sum(jnp.sum(x * x) for x in g.values()))
            g = {path: x * (1 / jnp.maximum(norm, 1)) for path, x in g.items()}
        t = t + 1
        alpha = LEARNING_RATE * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        m = jax.tree.map(lambda m, g: m + (g - m) * (1 - 0.9), m, g)
        v = jax.tree.map(lambda v, g: v + (g * g - v) * (1 - 0.999), v, g)
        p = jax.tree.map(lambda p, m, v: p - LEARNING_RATE * DECAY[model] * p - alpha * m / (jnp.sqrt(v) + EPSILON), p, m, v)
        return (p, m, v, t, key), loss

    p = {path: jnp.asarray(array) for path, array in weights.items() if is_trained(path)}
    state = [(p, *(jax.tree.map(jnp.zeros_like, p) for _ in range(2)), jnp.float32(0), jax.random.key(1))]
    tensors = [[jnp.asarray(array) for array in batch] for batch in batches]
    compiled = jax.jit(train, donate_argnums=0)

    def step(i):
        state[0], loss = compiled(state[0], *tensors[i % N_BATCHES])
        return float(loss)

    return jax.__version__, step


def torch_step(model, sizes, weights, batches, threads, compiled):
    import torch
    import transformers_torch

    torch.set_num_threads(threads)
    p = transformers_torch.parameters(weights)
    trained = [x for path, x in p.items() if is_trained(path)]
    optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE, weight_decay=DECAY[model], eps=EPSILON, fused=True)
    names = ("masked", "position", "label", "weight") if model == "bert" else ("text",)
    loss_of = {"bert": transformers_torch.bert_loss, "gpt": transformers_torch.gpt_loss}[model]

    def clip(*_):
        torch.nn.utils.clip_grad_norm_(trained, 1.0)

    if model == "gpt":
        optimizer.register_step_pre_hook(clip)

    def forward(*batch):
        return loss_of(p, dict(zip(names, batch)), sizes, RATE)

    if compiled:
        forward = harness.torch_compiled(torch, forward)
    tensors = [[torch.from_numpy(array).long() if array.dtype.name == "int32" else torch.from_numpy(array) for array in batch] for batch in batches]
    step = harness.torch_step(forward, optimizer, tensors)
    return torch.__version__, lambda i: step(i % N_BATCHES)


def main():
    parser = harness.parser(__doc__, batch=None, threads=2)
    parser.add_argument("--model", choices=["bert", "gpt"], required=True)
    parser.add_argument("--peer", choices=["tensorflow", "xla", "jax", "torch", "compile"], required=True)
    for name in ("context", "predictions", "layers"):
        parser.add_argument(f"--{name}", type=int, help="as the program's option")
    arguments = parser.parse_args()
    harness.hold_to_cores(parser, arguments.threads)
    sizes = {**transformers.SIZES[f"{arguments.model}_full"], "steps": N_BATCHES}
    sizes.update({name: getattr(arguments, name) for name in ("context", "predictions", "layers", "batch") if getattr(arguments, name)})
    arguments.batch = sizes["batch"]
    rows = transformers.batches_of(sizes)
    batches = [[array[i * sizes["batch"] : (i + 1) * sizes["batch"]] for array in rows.values()] for i in range(N_BATCHES)]
    given = (arguments.model, sizes, transformers.weights_of(sizes), batches, arguments.threads)
    if arguments.peer in ("tensorflow", "xla"):
        version, step = tensorflow_step(*given, jit=arguments.peer == "xla")
    elif arguments.peer == "jax":
        version, step = jax_step(*given)
    else:
        version, step = torch_step(*given, compiled=arguments.peer == "compile")
    measured = harness.measure(step, arguments.steps)
    harness.print_line(arguments.peer, version, sizes["program"], arguments, measured)


if __name__ == "__main__":
    main()
