"""resnet_step: how long a training step of the network of examples/resnet.dt takes in PyTorch and in JAX.

The same network, loss and optimizer at a constant rate and the same batch: PyTorch as it is and compiled, with channels last or first, and jax.jit with
donated state. The network is written once, of layers that each framework has a function for. A step is timed from call to the loss being read; the median
over steps is what is compared.

    bench/peers/.venv/bin/python bench/peers/resnet_step.py [--peer torch|compile|jax] [--channels last|first] [--batch 128] [--threads 2] [--steps 50]
    bench/peers/.venv/bin/python bench/peers/resnet_step.py --weights FILE.safetensors      writes the initial weights by the program's paths, and ends

Prints one JSON object a line, as cnn_step.py does.
"""

import os
import pathlib
import sys

import harness
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests/golden"))
import glorot

WIDTHS, BLOCKS, CLASSES = (32, 64, 128), 2, 10
RATE, MOMENTUM, DECAY, SMOOTHING = 1e-3, 0.9, 5e-4, 0.1
AVERAGING, EPSILON = 0.99, 1e-3  # of batch normalisation
SEED = 3


def resnet(conv_norm, relu, x):
    """What the last block says. conv_norm(path, x, filters, kernel, stride) is a convolution and a batch normalisation."""
    x = relu(conv_norm("stem", x, WIDTHS[0], 3, 1))
    for i in range(len(WIDTHS) * BLOCKS):
        block, filters = f"block_{i}" if i else "block", WIDTHS[i // BLOCKS]
        is_wider = i > 0 and i % BLOCKS == 0
        stride = 2 if is_wider else 1
        y = relu(conv_norm(f"{block}/conv_norm", x, filters, 3, stride))
        y = conv_norm(f"{block}/conv_norm_1", y, filters, 3, 1)
        x = relu((conv_norm(f"{block}/shortcut", x, filters, 1, stride) if is_wider else x) + y)
    return x


class Channels(int):
    """In place of x: how many channels it has. A sum has as many as its parts."""

    def __add__(self, other):
        return self


def initial_weights():
    """({path: parameter}, {path: the two moving averages})"""
    random, weights, averages = np.random.RandomState(SEED), {}, {}

    def conv_norm(path, channels, filters, kernel, _):
        weights[f"{path}/conv2d/kernel"] = glorot.glorot_uniform(random, (kernel, kernel, channels, filters))
        weights[f"{path}/batch_norm/gamma"], weights[f"{path}/batch_norm/beta"] = np.ones(filters, np.float32), np.zeros(filters, np.float32)
        averages[path] = np.zeros(filters, np.float32), np.ones(filters, np.float32)
        return Channels(filters)

    channels = resnet(conv_norm, lambda channels: channels, Channels(1))
    weights["dense/kernel"], weights["dense/bias"] = glorot.glorot_uniform(random, (channels, CLASSES)), np.zeros(CLASSES, np.float32)
    return weights, averages


def torch_step(batches, threads, channels, compiled):
    """(version, step): step(i) trains on batch i and returns its loss as a float."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(threads)
    layout = {"last": torch.channels_last, "first": torch.contiguous_format}[channels]
    weights, averages = initial_weights()
    p = {path: torch.tensor(array.transpose(3, 2, 0, 1) if array.ndim == 4 else array) for path, array in weights.items()}
    p = {path: (x.contiguous(memory_format=layout) if x.ndim == 4 else x).requires_grad_() for path, x in p.items()}
    averages = {path: [torch.tensor(array) for array in both] for path, both in averages.items()}
    optimizer = torch.optim.SGD(p.values(), RATE, MOMENTUM, nesterov=True, fused=True)

    def decay(*_):
        with torch.no_grad():
            torch._foreach_mul_(list(p.values()), 1 - RATE * DECAY)

    optimizer.register_step_pre_hook(decay)

    def conv_norm(path, x, filters, kernel, stride):
        if kernel == 3 and stride == 2:  # the border of zeros of an even size is below and to the right
            x = functional.conv2d(functional.pad(x, (0, 1, 0, 1)), p[f"{path}/conv2d/kernel"], stride=2)
        else:
            x = functional.conv2d(x, p[f"{path}/conv2d/kernel"], stride=stride, padding=kernel // 2)
        return functional.batch_norm(x, *averages[path], p[f"{path}/batch_norm/gamma"], p[f"{path}/batch_norm/beta"], True, 1 - AVERAGING, EPSILON)

    def loss_of(image, label):
        x = resnet(conv_norm, torch.relu, (image[:, None].float() / 255).contiguous(memory_format=layout))
        logits = x.mean((2, 3)) @ p["dense/kernel"] + p["dense/bias"]
        return functional.cross_entropy(logits, label, label_smoothing=SMOOTHING), (logits.argmax(1) == label).float().mean()

    if compiled:
        loss_of = harness.torch_compiled(torch, loss_of)
    tensors = [(torch.tensor(image), torch.tensor(label).long()) for image, label in batches]
    return torch.__version__, harness.torch_step(loss_of, optimizer, tensors)


def jax_step(batches):
    """(version, step) as above. XLA takes its number of threads from the cores that the process may use."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    from jax import lax

    def objective(p, averages, image, label):
        moved = {}

        def conv_norm(path, x, filters, kernel, stride):
            x = lax.conv_general_dilated(x, p[f"{path}/conv2d/kernel"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            both = x.mean((0, 1, 2)), x.var((0, 1, 2))
            moved[path] = [AVERAGING * old + (1 - AVERAGING) * new for old, new in zip(averages[path], both)]
            return (x - both[0]) * lax.rsqrt(both[1] + EPSILON) * p[f"{path}/batch_norm/gamma"] + p[f"{path}/batch_norm/beta"]

        x = resnet(conv_norm, jax.nn.relu, image.astype(jnp.float32)[..., None] / 255)
        logits = x.mean((1, 2)) @ p["dense/kernel"] + p["dense/bias"]
        log_softmax, label = jax.nn.log_softmax(logits), label.astype(jnp.int32)
        wanted = jnp.take_along_axis(log_softmax, label[:, None], axis=1)[:, 0]
        loss = -((1 - SMOOTHING) * wanted + SMOOTHING * log_softmax.mean(1)).mean()
        return loss, (moved, (logits.argmax(1) == label).mean())

    def train(state, image, label):
        p, v, averages = state
        (loss, (averages, accuracy)), g = jax.value_and_grad(objective, has_aux=True)(p, averages, image, label)
        v = jax.tree.map(lambda v, g: MOMENTUM * v - RATE * g, v, g)
        p = jax.tree.map(lambda p, v, g: p - RATE * DECAY * p + MOMENTUM * v - RATE * g, p, v, g)
        return (p, v, averages), loss, accuracy

    p, averages = jax.tree.map(jnp.asarray, initial_weights())
    state = [(p, jax.tree.map(jnp.zeros_like, p), {path: list(both) for path, both in averages.items()})]
    tensors = [(jnp.asarray(image), jnp.asarray(label)) for image, label in batches]
    compiled = jax.jit(train, donate_argnums=0)

    def step(i):
        state[0], loss, _ = compiled(state[0], *tensors[i])
        return float(loss)

    return jax.__version__, step


def main():
    parser = harness.parser(__doc__, batch=128, threads=2)
    parser.add_argument("--peer", choices=["torch", "compile", "jax"], default="torch")
    parser.add_argument("--channels", choices=["last", "first"], default="last", help="of PyTorch's images (%(default)s)")
    parser.add_argument("--weights", metavar="FILE", help="write the initial weights there, and end")
    arguments = parser.parse_args()
    if arguments.weights:
        glorot.save_file({f"ResNet/{path}": array for path, array in initial_weights()[0].items()}, arguments.weights)
        return
    harness.hold_to_cores(parser, arguments.threads)
    batches = harness.read_batches(arguments.data, arguments.batch)
    if arguments.peer == "jax":
        version, step = jax_step(batches)
    else:
        version, step = torch_step(batches, arguments.threads, arguments.channels, compiled=arguments.peer == "compile")
    harness.print_line(arguments.peer, version, "resnet", arguments, harness.measure(step, arguments.steps))


if __name__ == "__main__":
    main()
