"""sharded: how long one training step of examples/gpt.dt takes in PyTorch's FSDP2 over Gloo (`fully_shard` of each block, and of what is left), whose
workers are processes of this machine, a core each, that have a share of parameters, gradients and optimizer states each.

The same model, optimizer and clipping at the same global batch, each worker with its rows of it in memory, PyTorch eager. It is timed in the first worker
from call to the loss being read.

    bench/peers/.venv/bin/python bench/peers/sharded.py [--check] [--threads 2] [--batch 16] [--width 512] [--layers 4]
        [--steps 10]

starts as many workers as threads.

Prints the JSON line of cnn_step.py. With --check it trains without dropout beside the same model that knows nothing of FSDP2 and is given whole batches,
and prints {"peer": "torch", "version": "2.15.0", "gradients": 1e-6, "losses": 1e-6, "last_loss": 5.1}: by which part of their length the first gradients
differ from those of that model, losses by which part, at most, and the last loss. There have been versions in which Gloo gave FSDP2 sums of gradients for
the means that it asks for, by a factor that clipping and Adam hide from losses.
"""
import copy
import json
import os
import pathlib
import subprocess
import sys

import harness
from multi_worker import free_ports

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests/golden"))
import transformers

RATE, EPSILON = 0.1, 1e-3  # of dropout, of layer normalisation
LEARNING_RATE, DECAY, NORM = 3e-4, 0.1, 1.0


def model_of(torch, sizes, rate):
    """Its forward gives the loss of text [B, context + 1]."""
    from torch import nn
    from torch.nn import functional as F

    width = sizes["width"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.norm_1 = nn.LayerNorm(width, EPSILON), nn.LayerNorm(width, EPSILON)
            self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (sizes["heads"], -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + F.dropout(self.output(y), rate)
            return x + F.dropout(self.narrow(F.gelu(self.wide(self.norm_1(x)))), rate)

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.position = (nn.Parameter(0.02 * torch.randn(n, width)) for n in (transformers.BYTES, sizes["context"]))
            self.blocks = nn.ModuleList(Block() for _ in range(sizes["layers"]))
            self.norm = nn.LayerNorm(width, EPSILON)

        def forward(self, text):
            x = self.table[text[:, :-1]] + self.position
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy((self.norm(x) @ self.table.T).flatten(0, 1), text[:, 1:].flatten())

    return Gpt()


def share_out(torch, model):
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for module in (*model.blocks, model):
        fully_shard(module, mesh=mesh)


def step_of(torch, model, batches):
    def clip(*_):
        torch.nn.utils.clip_grad_norm_(model.parameters(), NORM)

    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=DECAY, eps=1e-7, fused=True)
    optimizer.register_step_pre_hook(clip)
    return harness.torch_step(lambda text: (model(text),), optimizer, [(text,) for text in batches])


def gradients_of(model, text):
    """[gradient], whole."""
    model.zero_grad()
    model(text).backward()
    return [getattr(p.grad, "full_tensor", lambda p=p: p.grad)().clone() for p in model.parameters()]


def mean_of(torch, x):
    """Over the workers."""
    x = torch.tensor(x)
    torch.distributed.all_reduce(x)
    return x.item() / torch.distributed.get_world_size()


def check(torch, model, mine, whole, n_steps):
    """What --check prints."""
    alone = copy.deepcopy(model)
    wanted = gradients_of(alone, whole[0])
    share_out(torch, model)
    gradients = max(((g - w).norm() / w.norm()).item() for g, w in zip(gradients_of(model, mine[0]), wanted))
    steps = step_of(torch, model, mine), step_of(torch, alone, whole)
    losses = [(mean_of(torch, steps[0](i)), steps[1](i)) for i in range(n_steps)]
    return {"gradients": gradients, "losses": max(abs(a / b - 1) for a, b in losses), "last_loss": losses[-1][0]}


def work(arguments, worker):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[worker]})
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.distributed.init_process_group("gloo", rank=worker, world_size=arguments.threads)
    sizes = {**transformers.SIZES["gpt_full"], "width": arguments.width, "layers": arguments.layers, "batch": arguments.batch, "steps": harness.N_BATCHES}
    whole = torch.from_numpy(transformers.batches_of(sizes)["text"]).long().split(arguments.batch)
    mine = [text.chunk(arguments.threads)[worker] for text in whole]
    if arguments.check:
        line = {"peer": "torch", "version": torch.__version__, **check(torch, model_of(torch, sizes, 0.0), mine, whole, arguments.steps)}
        if worker == 0:
            print(json.dumps(line))
    else:
        model = model_of(torch, sizes, RATE)
        share_out(torch, model)
        measured = harness.measure(step_of(torch, model, mine), arguments.steps)
        if worker == 0:
            harness.print_line("torch", torch.__version__, "gpt", arguments, measured)
    torch.distributed.destroy_process_group()


def main():
    parser = harness.parser(__doc__, batch=16, threads=2)
    parser.add_argument("--width", type=int, default=512, help="of the model (%(default)s)")
    parser.add_argument("--layers", type=int, default=4, help="of the model (%(default)s)")
    parser.add_argument("--check", action="store_true", help="whether it computes what the model alone does")
    arguments = parser.parse_args()
    worker = os.environ.get("SHARDED_WORKER")
    if worker is not None:
        work(arguments, int(worker))
        return
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]), "GLOO_SOCKET_IFNAME": "lo"}
    workers = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], env={**environment, "SHARDED_WORKER": str(index)})
               for index in range(arguments.threads)]
    sys.exit(max(one.wait() for one in workers))


if __name__ == "__main__":
    main()
