"""--shard-optimizer with GPUs: processes that each keep a share of the optimizer's states on their GPU train what one GPU trains that keeps all, to the
bit, with gradients clipped by the length of all and norms of each parameter and its update (LAMB), by NCCL on the GPUs' own queues and through the host's
memory by MPI, also with several GPUs each. Fakes of the driver and of NCCL are in each process, whose events come in several orders."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu_processes import *  # noqa: E402,F403

# Tensors of blocks and a rest, of less than one, and of too few elements to be shared out.
PROGRAM = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | take(36) | shuffle(36) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(30) | batch(24)

model Net(a: f32[B, 6]) -> f32[B] {
    x = dense(a, units: 64, activation: tanh)
    x = dense(x, units: 230, activation: tanh)
    x = dense(x, units: 160, activation: tanh)
    return dense(x, units: 1)[:, 0]
}

optimizer scaled(learning_rate: schedule = 0.01, decay: float = 0.01) {
    update (p, g) {
        state m = zeros_like(p)
        state v = zeros_like(p)
        m := 0.9 * m + 0.1 * g
        v := 0.99 * v + 0.01 * square(g)
        step = m / (sqrt(v) + 1e-3) + decay * p
        p := p - learning_rate * sqrt(sum(square(p))) / (sqrt(sum(square(step))) + 1e-6) * step
    }
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = square(Net(a) - b[:, 0])
    apply(scaled(), clip_by_global_norm(grad(objective(loss), params(Net)), 0.5))
    report loss: mean(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(square(Net(a) - b[:, 0]))
}
"""
SHARED, BY_NCCL, BY_HOST = "--shard-optimizer", "sums cross processes by NCCL", "through the machines' memory, and not by NCCL"


def most_kept(done, n):
    """The percentage of the optimizer's states that one of n processes says to keep at most."""
    found = re.search(r"optimizer's states: at most [\d.]+ MiB of [\d.]+ MiB in each of (\d+) processes, ([\d.]+) %", str(done.events))
    check(found and int(found[1]) == n, f"{n} processes do not say what they keep: {done.events}")
    return float(found[2])


def main():
    net = Case("net", PROGRAM, batch=24, replicas=6)
    for n, seed, memory in ((2, 0, "memory"), (2, 1, ""), (3, 2, "memory")):
        done = net.agrees(n, seed, SHARED, check=memory)
        check_said(done, BY_NCCL)
        kept = most_kept(done, n)
        print(f"{n} GPUs keep at most {kept} % each", flush=True)
        check(kept <= 105 / n, f"{n} GPUs keep too much each")
    for n, seed, settings in ((2, 0, {"count": 1}), (3, 1, {"count": 2}), (2, 2, {"devices": "cuda:0,1"})):
        check_said(net.agrees(n, seed, SHARED, **settings), BY_HOST)

    about = subprocess.run(["dtrun", "info", net.artifact.path, "--processes", "3", "--replicas", "6", "--shard-optimizer", "--devices", "cuda"],
                           capture_output=True, text=True)
    check(f"each of 3 processes, {kept} %" in about.stdout, about)

    # Whoever goes on, in mid-epoch, goes on from the same checkpoint.
    for i, (n, *flags) in enumerate(((2, SHARED), (3,), (3, SHARED))):
        net.train(n, "turns", *flags, *(["--max-steps", i + 1] if i < 2 else []), *(["--resume"] if i > 0 else []), seed=i)
    check(left_by(FOLDER / "turns") == net.wanted[0], "runs with and without shares, one after another, end with other bits")
    finish()


main()
