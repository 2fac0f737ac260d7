"""Models in shards on GPUs leave the bytes of one GPU that computes all shards in turn: with several GPUs in a process, with processes that have all
shards, or some each (--shards-over), by NCCL on the GPUs' own queues and through the host's memory by MPI. And that one GPU computes what a CPU does,
where a library notes the mask of a relu for its gradient, of each shard.

A step is one graph, whose exchanges all processes make in one order, over a communicator for each axis; another order shows. Fakes of the driver and of
NCCL are in each process, whose events come in several orders."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu_processes import *  # noqa: E402,F403
from nccl_order import disorder  # noqa: E402
from sharded import SPLIT  # noqa: E402

NET = SPLIT.replace("shuffle(90)", "take(44) | shuffle(44)").replace("take(50)", "take(30)")

# Products that cuBLASLt takes, of a shard: a relu of columns, and one of all.
RELUS = """
use nn, optimizers

mesh model = 2

data train_set = npy("a.npy", "b.npy") | take(24) | batch(24)

model Net(a: f32[B, 6]) -> f32[B, 1] {
    x = dense(dense(a, units: 240), units: 384, activation: relu, shard: columns)
    x = dense(dense(x, units: 240, activation: relu, shard: rows), units: 260, activation: relu)
    return dense(dense(x, units: 260), units: 1)
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = mean(square(Net(a) - b[:, :1]), axis: 1)
    minimize(loss, sgd(learning_rate: 0.05))
    report loss: mean(loss)
}
"""
BY_HOST = {"DT_NCCL": "none"}


def over(k):
    return ["--shards-over", k]


def noted(name):
    return {"FAKE_NCCL_ORDER": f"{FOLDER}/{name}."}


def order_of(name):
    paths = list(FOLDER.glob(f"{name}.*"))
    check(len(paths) > 1, f"{name}: nobody has noted an order")
    return disorder(paths)


def any_layout_has_the_bits_of_one_gpu(net):
    for devices, seed in (("cuda:0,1", 0), ("cuda:0,1,2", 1)):
        folder = f"devices-{seed}"
        done = net.artifact.run("train", *net.flags, "--checkpoint-dir", FOLDER / folder, devices=devices, count=3, seed=seed, check="" if seed else "memory")
        check(net.leaves(folder, done) == net.wanted, f"{devices}: other bits than one GPU's")
    for n, k, seed in ((2, 1, 0), (2, 2, 2), (4, 1, 1), (4, 2, 3)):
        done = net.agrees(n, seed, *over(k), check="" if seed % 2 else "memory", settings=noted(f"order-{n}-{k}"), log=FOLDER / f"log-{n}-{k}-%")
        check_said(done, "sums cross processes by NCCL")
        check(order_of(f"order-{n}-{k}") is None, f"{n} processes, --shards-over {k}: {order_of(f'order-{n}-{k}')}")
    check_said(net.agrees(2, 0, *over(2), settings=BY_HOST), "and not by NCCL")
    check_said(net.agrees(4, 1, *over(2), devices="cuda:0,1", check=""), "and not by NCCL")


def relus_are_those_of_each_shard(relus):
    Run("train", relus.artifact.path, *relus.flags, "--devices", "cpu:1x1", "--checkpoint-dir", FOLDER / "cpu")
    found, wanted = tensors(FOLDER / "relus-one"), tensors(FOLDER / "cpu")
    for name, values in wanted.items():
        error = max(abs(a - b) for a, b in zip(found[name], values)) / max(map(abs, values))
        check(error < 1e-5, f"{name}: {error:.2g} away from a CPU's")


def first_graphs(name):
    """The communicators of the groups that a process has put into its first graphs, and how many groups came before: the same, by which it connects."""
    lines = [re.sub(r":\d+:", ":", line) for line in next(FOLDER.glob(f"{name}.*")).read_text().splitlines()]
    n = max(n for n in range(1, len(lines) // 2 + 1) if lines[:n] == lines[n:2 * n])
    return [line.split()[0] for line in lines[n:2 * n]], n


def another_order_shows(net):
    """Where an exchange of replicas comes right before one of shards, of what is there once: of one process alone it sends what is not there yet; of two
    that have neither in common all four wait for one another."""
    axes, before = first_graphs("order-4-2")
    check(len(set(axes)) == 2, f"the communicators of a process: {set(axes)}")
    i = next(i for i in range(len(axes) - 1) if axes[i + 1] == axes[0] != axes[i]) + before
    for name, swap in (("one", f"1:{i + 1}"), ("two", f"1:{i + 1},2:{i + 1}")):
        run = net.train(4, f"swapped-{name}", *over(2), "--deadline", 3, expect=None, seed=2, check="", settings={**noted(f"swapped-{name}"), "FAKE_NCCL_SWAP": swap})
        check(run.returncode != 0 or net.leaves(f"swapped-{name}", run) != net.wanted, f"processes {swap}: another order changes nothing")
    said = order_of("swapped-two")
    check("wait for one another" in str(said), f"an order in which all wait is not seen: {said}")


def a_step_is_one_graph():
    """In which one microbatch is computed while another one crosses."""
    n_beside, n_all = 0, 0
    for path in FOLDER.glob("log-4-2-*"):
        calls = read_log(path)
        n = sum(call.name == "cuGraphLaunch" for call in calls)
        check(n == 1 + 2 * (2 + 2), f"{n} graphs for the initial values and, in two epochs, two steps and two of evaluation each")
        ran = [line for call in calls for line in call.ran]
        for i in (i for i, line in enumerate(ran) if line.startswith("begins exec") and "ncclGroupEnd" in line):
            end = next(k for k in range(i + 1, len(ran)) if ran[k] == ran[i].replace("begins", "runs"))
            n_beside += any(": train_" in line or ": evaluate_" in line for line in ran[i + 1:end])
            n_all += 1
    check(5 * n_beside > n_all, f"kernels run during {n_beside} of {n_all} exchanges")
    print(f"kernels run during {n_beside} of {n_all} exchanges", flush=True)


def it_goes_on_in_another_layout(net):
    for i, (n, k) in enumerate(((2, 2), (3, 1), (4, 4))):
        net.train(n, "turns", *over(k), *(["--max-steps", i + 1] if i < 2 else []), *(["--resume"] if i > 0 else []), seed=i)
    check(left_by(FOLDER / "turns") == net.wanted[0], "gone on with in other layouts, other bits")


def states_are_shared_out(wide):
    """A shard's part of each slot, among the GPUs that hold that shard."""
    check_said(wide.agrees(4, 2, *over(2), "--shard-optimizer", check=""), "optimizer's states: at most")


def main():
    net, relus = Case("net", NET, batch=24), Case("relus", RELUS, batch=24, replicas=1)
    relus_are_those_of_each_shard(relus)
    any_layout_has_the_bits_of_one_gpu(net)
    another_order_shows(net)
    a_step_is_one_graph()
    it_goes_on_in_another_layout(net)
    refused = net.train(2, "refused", "--stages", 2, expect=1)
    check("--stages 2 with a GPU" in refused.stderr and "use --shards-over, --shard-parameters or --devices cpu" in refused.stderr, refused)
    states_are_shared_out(Case("wide", NET.replace("units: 32", "units: 64"), batch=24))
    finish()


main()
