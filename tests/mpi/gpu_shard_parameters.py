"""--shard-parameters with GPUs: processes that each keep a share of the parameters on their GPU, and gather a layer's by NCCL on the GPUs' own queues, train
what one GPU trains that keeps all, to the bit. A step stays one graph. Fakes of the driver and of NCCL are in each process, whose events come in several
orders."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu_processes import *  # noqa: E402,F403

# Several layers, and a norm of all gradients.
PROGRAM = EARLY.replace("activation: tanh", "activation: relu").replace("minimize(loss, adam(learning_rate: 0.001))",
                        "apply(adam(learning_rate: 0.001), clip_by_global_norm(grad(objective(loss), params(Net)), 0.5))")
SHARED = "--shard-parameters"


def is_one_graph(net):
    """A step is: in two epochs there are two steps and two of evaluation each. Some kernels run while NCCL is at work."""
    net.train(2, "logged", SHARED, log=FOLDER / "log-%", check="", seed=1)
    n_beside = 0
    for path in FOLDER.glob("log-*"):
        calls = read_log(path)
        n = sum(call.name == "cuGraphLaunch" for call in calls)
        check(n == 1 + 2 * (2 + 2), f"{n} graphs for the initial values and eight steps")
        ran = [line for call in calls for line in call.ran]
        for i in (i for i, line in enumerate(ran) if line.startswith("begins exec") and "ncclGroupEnd" in line):
            end = next(k for k in range(i + 1, len(ran)) if ran[k] == ran[i].replace("begins", "runs"))
            n_beside += any(": train_" in line for line in ran[i + 1:end])
    check(n_beside > 0, "no kernel of a step runs while parameters are gathered or sums leave")
    careless = net.train(2, "careless", SHARED, expect=None, settings={"FAKE_NCCL_IGNORE_WAITS": "1"}.items())
    check(careless.returncode != 0 or net.leaves("careless", careless) != net.wanted, "what does not wait for a gather shows nowhere")


def main():
    net = Case("net", PROGRAM, batch=24, replicas=6)
    for n, seed, memory in ((2, 0, "memory"), (2, 1, ""), (3, 2, "memory"), (4, 3, "")):
        check_said(net.agrees(n, seed, SHARED, check=memory), "sums cross processes by NCCL", "parameters: at most")
    is_one_graph(net)
    done = net.train(2, "refused", SHARED, settings={"DT_NCCL": "none"}, expect=1)
    check("--shard-parameters on GPUs: they gather parameters by NCCL alone" in done.stderr + done.stdout, done)

    # Whoever goes on, in mid-epoch, goes on from the same checkpoint.
    for i, (n, *flags) in enumerate(((2, SHARED), (3,), (3, SHARED))):
        net.train(n, "turns", *flags, *(["--max-steps", i + 1] if i < 2 else []), *(["--resume"] if i > 0 else []), seed=i)
    check(left_by(FOLDER / "turns") == net.wanted[0], "runs with and without shares, one after another, end with other bits than one")
    finish()


main()
