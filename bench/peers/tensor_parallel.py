"""tensor_parallel: how long one training step of examples/gpt.dt takes where each of several processes, a core each, has a part of every block's
attention heads and of its perceptron's columns: in PyTorch (DTensor, `parallelize_module`, over Gloo), and in JAX (`jax.jit` of arrays with shardings,
`jax.distributed`, whose collectives on CPUs are Gloo's).

The same model without dropout from the same weights, plain gradient descent, the same batches in memory; all of a batch in each process. Queries, keys and
values are one product, whose columns stand so that each process has those of its heads. It is timed in the first worker from call to the loss being read.

    bench/peers/.venv/bin/python bench/peers/tensor_parallel.py --peer torch|jax [--threads 2] [--batch 16] [--width 512] [--layers 4] [--steps 10]

starts as many workers as threads.

Prints the JSON line of cnn_step.py.
"""
import os
import pathlib
import subprocess
import sys

import harness
import numpy as np
from multi_worker import free_ports

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests/golden"))
import transformers

EPSILON = 1e-3  # of layer normalisation
RATE = 0.01  # of learning
COLUMNS, ROWS = ("attention/dense", "dense"), ("attention/dense_1", "dense_1")  # of a block: products whose columns, and whose rows, are split


def torch_step(sizes, weights, batches, worker, n_workers, address):
    """(version, step)"""
    import torch
    from torch import nn
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from torch.nn import functional as F

    width, head = sizes["width"], sizes["width"] // sizes["heads"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.norm_1 = nn.LayerNorm(width, EPSILON), nn.LayerNorm(width, EPSILON)
            self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (-1, head)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
            x = x + self.output(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
            return x + self.narrow(F.gelu(self.wide(self.norm_1(x))))

        def take(self, path):
            names = {"norm": "layer_norm", "norm_1": "layer_norm_1"}
            for name, dense in zip(("qkv", "output", "wide", "narrow"), ("attention/dense", "attention/dense_1", "dense", "dense_1")):
                kernel, bias = weights[f"{path}/{dense}/kernel"], weights[f"{path}/{dense}/bias"]
                if name == "qkv":  # those of a worker's heads side by side
                    kernel, bias = (array.reshape(-1, 3, n_workers, width // n_workers).swapaxes(1, 2).reshape(array.shape) for array in (kernel, bias))
                getattr(self, name).weight.data.copy_(torch.from_numpy(kernel.T.copy()))
                getattr(self, name).bias.data.copy_(torch.from_numpy(bias.copy()))
            for name, norm in names.items():
                getattr(self, name).weight.data.copy_(torch.from_numpy(weights[f"{path}/{norm}/gamma"]))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.position = (nn.Parameter(torch.from_numpy(weights[f"Gpt/{name}"].copy())) for name in ("table", "position"))
            self.blocks = nn.ModuleList(Block() for _ in range(sizes["layers"]))
            self.norm = nn.LayerNorm(width, EPSILON)

        def forward(self, text):
            x = self.table[text[:, :-1]] + self.position
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy((self.norm(x) @ self.table.T).flatten(0, 1), text[:, 1:].flatten())

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://{address}", rank=worker, world_size=n_workers)
    model = Gpt()
    for i, block in enumerate(model.blocks):
        block.take(f"Gpt/block{transformers.suffix(i)}")
    plan = {f"blocks.*.{name}": ColwiseParallel() for name in ("qkv", "wide")} | {f"blocks.*.{name}": RowwiseParallel() for name in ("output", "narrow")}
    parallelize_module(model, torch.distributed.init_device_mesh("cpu", (n_workers,)), plan)
    split = [p for p in model.parameters() if isinstance(p, DTensor)]
    whole = [p for p in model.parameters() if not isinstance(p, DTensor)]
    optimizer = torch.optim.SGD([{"params": split}, {"params": whole}], lr=RATE)
    return torch.__version__, harness.torch_step(lambda text: (model(text),), optimizer, [(torch.from_numpy(text).long(),) for text in batches])


def jax_step(sizes, weights, batches, worker, n_workers, address):
    """(version, step)"""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, n_workers, worker)
    mesh = Mesh(np.array(jax.devices()), ("model",))
    width, heads = sizes["width"], sizes["heads"]

    def sharding_of(path):
        block, _, rest = path.partition("/")[2].partition("/")
        dense, _, name = rest.rpartition("/")
        if not block.startswith("block") or dense not in COLUMNS + ROWS or (dense in ROWS and name == "bias"):
            return NamedSharding(mesh, PartitionSpec())
        of_three = (None,) if dense == "attention/dense" else ()
        kernel = (None, *of_three, "model") if dense in COLUMNS else ("model", None)
        return NamedSharding(mesh, PartitionSpec(*(kernel if name == "kernel" else kernel[1:])))

    def put(array, sharding):
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    def three(path, array):
        return array.reshape(*array.shape[:-1], 3, width) if "attention/dense/" in path else array

    def norm(p, path, x):
        mean, variance = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * p[f"{path}/gamma"] + p[f"{path}/beta"]

    def dense(p, path, x):
        return x @ p[f"{path}/kernel"] + p[f"{path}/bias"]

    def block(p, path, x):
        batch, length, _ = x.shape
        kernel, bias = p[f"{path}/attention/dense/kernel"], p[f"{path}/attention/dense/bias"]
        y = norm(p, f"{path}/layer_norm", x)
        q, k, v = ((y @ kernel[:, i] + bias[i]).reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for i in range(3))
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), q @ k.transpose(0, 1, 3, 2) / np.sqrt(width // heads), -1e9)
        y = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
        x = x + dense(p, f"{path}/attention/dense_1", y)
        return x + dense(p, f"{path}/dense_1", jax.nn.gelu(dense(p, f"{path}/dense", norm(p, f"{path}/layer_norm_1", x)), approximate=False))

    def loss_of(p, text):
        token = text.astype(jnp.int32)
        x = p["Gpt/table"][token[:, :-1]] + p["Gpt/position"]
        for i in range(sizes["layers"]):
            x = block(p, f"Gpt/block{transformers.suffix(i)}", x)
        logits = norm(p, "Gpt/layer_norm", x) @ p["Gpt/table"].T
        return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, token[:, 1:, None], -1)[..., 0])

    shardings = {path: sharding_of(path) for path in weights}
    whole = NamedSharding(mesh, PartitionSpec())

    def train(p, text):
        loss, gradients = jax.value_and_grad(loss_of)(p, text)
        return {path: x - RATE * gradients[path] for path, x in p.items()}, loss

    compiled = jax.jit(train, donate_argnums=0, out_shardings=(shardings, whole))
    state = [{path: put(three(path, array), shardings[path]) for path, array in weights.items()}]
    texts = [put(text, whole) for text in batches]
    wide = state[0]["Gpt/block/dense/kernel"]
    assert wide.addressable_shards[0].data.shape == (width, 4 * width // n_workers)

    def step(i):
        state[0], loss = compiled(state[0], texts[i])
        return float(loss)

    return jax.__version__, step


def work(arguments, worker):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[worker]})
    sizes = {**transformers.SIZES["gpt_full"], "width": arguments.width, "layers": arguments.layers, "batch": arguments.batch, "steps": harness.N_BATCHES}
    batches = np.split(transformers.batches_of(sizes)["text"], harness.N_BATCHES)
    make = {"torch": torch_step, "jax": jax_step}[arguments.peer]
    version, step = make(sizes, transformers.weights_of(sizes), batches, worker, arguments.threads, os.environ["TENSOR_PARALLEL_ADDRESS"])
    measured = harness.measure(step, arguments.steps)
    if worker == 0:
        harness.print_line(arguments.peer, version, "gpt", arguments, measured)


def main():
    parser = harness.parser(__doc__, batch=16, threads=2)
    parser.add_argument("--peer", choices=["torch", "jax"], required=True)
    parser.add_argument("--width", type=int, default=512, help="of the model (%(default)s)")
    parser.add_argument("--layers", type=int, default=4, help="of the model (%(default)s)")
    arguments = parser.parse_args()
    worker = os.environ.get("TENSOR_PARALLEL_WORKER")
    if worker is not None:
        work(arguments, int(worker))
        return
    environment = {**os.environ, "TENSOR_PARALLEL_ADDRESS": f"127.0.0.1:{free_ports(1)[0]}", "GLOO_SOCKET_IFNAME": "lo"}
    workers = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], env={**environment, "TENSOR_PARALLEL_WORKER": str(index)})
               for index in range(arguments.threads)]
    sys.exit(max(one.wait() for one in workers))


if __name__ == "__main__":
    main()
