"""Processes with a GPU each exchange by NCCL on the GPUs' own queues, and train what one GPU trains, to the bit: fakes of the driver and of NCCL
(tests/support/fake_cuda.h, fake_nccl.c) in real processes, whose events come in several orders.

A step is one graph, and the host waits for it once. What follows a transfer and does not wait for it shows. A peer that stops or dies, an error of
NCCL's, a GPU that hangs end the run by the deadline, with an error that names them. What is complete early crosses while the rest is computed. With
--reduce=fast it is NCCL that adds up."""
import concurrent.futures
import os
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu_processes import *  # noqa: E402,F403
from timeline import Timeline, check_kernels  # noqa: E402

DEADLINE, GRACE = 2, 10
ON_ONE = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then\n{}\nfi'


def same_bits(net, halves, pairs):
    for n, seed in ((2, 0), (2, 1), (2, 2), (3, 0), (3, 3), (4, 1)):
        run = net.agrees(n, seed, check="" if seed % 2 == 0 else "memory")
        check_said(run, "sums cross processes by NCCL 2.27.3", "each process computes on one GPU")
    for n, seed in ((2, 0), (3, 1)):
        halves.agrees(n, seed)
        pairs.agrees(n, seed)
    print("the bits of one GPU", flush=True)


def what_is_complete_early_crosses_early(early):
    for seed in range(4):
        early.agrees(2, seed, log=FOLDER / f"early-{seed}-%")
    n_beside = 0
    for path in FOLDER.glob("early-1-*"):
        ran = [line for call in read_log(path) for line in call.ran]
        begun = [i for i, line in enumerate(ran) if line.startswith("begins exec") and "ncclGroupEnd" in line]
        for i in begun:
            end = next(k for k in range(i + 1, len(ran)) if ran[k] == ran[i].replace("begins", "runs"))
            n_beside += any(re.search(r": train_\d+_", line) for line in ran[i + 1:end])
    check(n_beside > 0, "no kernel of a step runs while NCCL is at work")


def the_timeline_has_what_gpus_do(early):
    path = FOLDER / "trace.json"
    early.agrees(2, 1, "--timeline", path, check="")
    trace = Timeline(path)
    check_kernels(trace, early.artifact.path, early.replicas, 6, 2, 2, on_gpu=True)
    for rank in (0, 1):
        names = {thread: name for (process, thread), name in trace.threads.items() if process == rank + 1}
        tracks = {category: {names[e["tid"]] for e in trace.of(category) if e["pid"] == rank + 1} for category in ("kernel", "transfer")}
        check(tracks == {"kernel": {f"cuda:{rank}"}, "transfer": {f"cuda:{rank}", f"cuda:{rank}, exchanges"}}, tracks)
    sent = sum(e["args"].get("bytes", 0) for e in trace.of("transfer", function="train", step=1))
    check(sent >= 2 * 4 * 900 * 320, f"{sent} bytes sent in a step")
    hidden = [(t, k) for t in trace.of("transfer", function="train") for k in trace.of("kernel", function="train")
              if t["pid"] == k["pid"] and t["began"] <= k["began"] and k["ended"] <= t["ended"]]
    check(hidden, "no kernel runs beside a transfer")


def bench_has_what_gpus_exchange(early):
    def bench(*flags, nccl=NCCL):
        environment = {**early.artifact.environment(count=2, check=""), "DT_NCCL": str(nccl), "FAKE_NCCL_FOLDER": str(FOLDER)}
        done = mpi.run("openmpi", 2, ["dtrun", "bench", early.artifact.path, "--devices", "cuda", "--replicas", "4", "--steps", "2", *flags], **environment)
        check(done.returncode == 0, f"{done.stdout}{done.stderr}")
        return done.stdout

    check(json.loads(bench("--json"))["linked"] > 0, "nothing is said to pass between GPUs")
    check("between GPUs themselves: " in bench(), "nor in the table")
    check("between GPUs" not in bench(nccl="none"), "without NCCL they exchange nothing themselves")


def sums_by_nccl():
    halves = Case("halves8", HALVES, batch=24, replicas=8)
    for case, n in ((Case("pairs6", PAIRS, batch=24, replicas=6), 2), (halves, 3)):
        log = FOLDER / f"{case.name}-log-%"
        is_added_up_by(case, "NCCL 2.27.3", n, log=log, seed=n)
        check(any("ncclAllReduce" in path.read_text() for path in FOLDER.glob(f"{case.name}-log-*")), "NCCL was not asked")


def evaluations_and_predictions(net):
    flags = ["--data", DATA, "--replicas", net.replicas, "--checkpoint-dir", FOLDER / "net-one"]
    inputs = ["--replicas", net.replicas, "--checkpoint-dir", FOLDER / "net-one", f"--input={DATA / 'test-images'}"]
    net.artifact.run("predict", *inputs, "--output", FOLDER / "predicted-one")
    wanted = said(net.artifact.run("evaluate", *flags).events), predictions(FOLDER / "predicted-one")
    check(wanted[0] and wanted[1], "there is nothing to compare")
    for n in (2, 3):
        net.start(n, "predict", *inputs, "--output", FOLDER / f"predicted-{n}", seed=n)
        found = said(net.start(n, "evaluate", *flags, seed=n).events), predictions(FOLDER / f"predicted-{n}")
        check(found == wanted, f"{n} processes evaluate or predict something else: {found[0]}, {wanted[0]}")


def it_goes_on_with_other_numbers(net):
    """Three steps by two processes, four by three, the rest by two, each epoch with an evaluation."""
    net.train(2, "turns", "--max-steps", 3)
    net.train(3, "turns", "--max-steps", 7, "--resume", seed=1)
    run = net.train(2, "turns", "--resume", seed=2)
    check(left_by(FOLDER / "turns") == net.wanted[0], f"gone on with by other numbers of processes, other bits: {run.events}")


def what_is_in_the_way_is_said(net):
    run = net.agrees(2, 0, first=ON_ONE.format("export FAKE_NCCL_VERSION=22601"))
    check_said(run, "and not by NCCL. process 0 has NCCL 2.27.3, process 1 has NCCL 2.26.1")
    run = net.agrees(2, 0, first=ON_ONE.format("export DT_NCCL=none"))
    check_said(run, "and not by NCCL. process 1: DT_NCCL=none")
    fails(net, "joining", ["process ", "NCCL 2.27.3, ncclCommInitRankConfig: another error, 2", "DT_NCCL=none does without it"],
          settings={"FAKE_LIBRARY_FAIL": "ncclCommInitRankConfig:1=2"}.items())
    fails(net, "absent", ["DT_NCCL=/nowhere cannot be loaded"], settings={"DT_NCCL": "/nowhere"}.items())


def a_wait_left_out_shows(net):
    run = net.train(2, "careless", expect=None, settings={"FAKE_NCCL_IGNORE_WAITS": "1"}.items())
    check(run.returncode != 0 or net.leaves("careless", run) != net.wanted, "what does not wait for a transfer shows nowhere: the comparison cannot fail")


def a_step_is_one_graph(net):
    """From one launch of a graph to the next the host asks whether it is done, sends the next inputs, and asks nothing else of the GPU."""
    allowed = {"cuGraphLaunch", "cuCtxSetCurrent", "cuStreamQuery", "cuStreamWaitEvent", "cuMemcpyHtoDAsync_v2", "cuEventRecord"}
    net.train(2, "logged", log=FOLDER / "log-%", check="")
    logs = list(FOLDER.glob("log-*"))
    check(len(logs) == 2, logs)
    for path in logs:
        calls = read_log(path)
        launches = [i for i, call in enumerate(calls) if call.name == "cuGraphLaunch"]
        check(len(launches) == 1 + 2 * (5 + 3), f"{len(launches)} graphs for the initial values, and in two epochs five steps and three of evaluation each")
        steps = launches[1:6]
        others = {call.name for call in calls[steps[0]:steps[-1]]} - allowed
        check(not others, f"in a step the host calls {others}")
        transfers = [ran for i in range(steps[0], steps[1]) for ran in calls[i].ran if "ncclGroupEnd" in ran and "begins exec" in ran]
        check(len(transfers) >= 2, f"a step's graph has {len(transfers)} transfers")


def fails(net, name, wanted, first="", **settings):
    began = time.monotonic()
    run = net.train(2, name, "--epochs", 100000, "--deadline", DEADLINE, expect=None, first=first, **settings)
    seconds = time.monotonic() - began
    check(run.returncode != 0, f"{name}: exit status 0")
    check(any(all(one in said for one in wanted) for said in (run.stderr, run.stdout + run.stderr)), f"{name}: {wanted}\n{run.stderr}")
    said = [line for line in run.stderr.splitlines() if wanted[0] in line]
    print(f"{name}: {seconds:.1f} s: {said[0] if said else run.stderr}", flush=True)
    return seconds


def whoever_fails_is_named(net):
    """All at once: they wait most of their time."""
    stop, calls = 3, FOLDER / "calls-of-stopped"  # seconds, after which the training is under way
    with concurrent.futures.ThreadPoolExecutor() as pool:
        silent = pool.submit(fails, net, "stopped", ["process 1 (", "has given no sign of life"], ON_ONE.format(f"(sleep {stop}; kill -STOP $$) &"),
                             settings={"FAKE_LIBRARY_LOG": str(calls)}.items())
        dead = pool.submit(fails, net, "killed", ["rank 1"], ON_ONE.format(f"(sleep {stop}; kill -KILL $$) &"))
        error = pool.submit(fails, net, "error", ["remote process exited or there was a network error, 6", "NCCL 2.27.3, "],  # whichever call meets it first
                            settings={"FAKE_NCCL_ERROR": "1:20=6"}.items())
        hangs = pool.submit(fails, net, "hangs", ["process 1: cuda:1, train step", "the GPU has not finished after 4 s; enqueued last"],
                            ON_ONE.format("export FAKE_CUDA_HANG=cuGraphLaunch:20"))
        for one in (silent, dead):
            check(one.result() < stop + DEADLINE + GRACE, f"a peer that stopped or died was noticed after {one.result()} s")
        error.result(), hangs.result()
    check("ncclCommAbort" in calls.read_text().split(), "NCCL was not told to give up what a stopped peer does not answer")


def a_slow_gpu_is_named(net):
    run = net.train(2, "slow", "--epochs", 1, first=ON_ONE.format("export FAKE_CUDA_DELAY=15"))
    said = re.findall(r"^dtrun: warning: (process .*)$", run.stderr, re.M)
    check(len(said) == 1 and re.match(r"process 1 \(\S+, pid \d+\) was at work for .*: they wait for it", said[0]), f"a slow GPU: {run.stderr}")
    print(f"a slow GPU: {said[0]}", flush=True)


def main():
    net, halves = Case("net", NET), Case("halves", HALVES, batch=24)
    same_bits(net, halves, Case("pairs", PAIRS, batch=24))
    early = Case("early", EARLY, batch=24)
    what_is_complete_early_crosses_early(early)
    the_timeline_has_what_gpus_do(early)
    bench_has_what_gpus_exchange(early)
    sums_by_nccl()
    evaluations_and_predictions(net)
    it_goes_on_with_other_numbers(net)
    what_is_in_the_way_is_said(net)
    a_wait_left_out_shows(net)
    a_step_is_one_graph(net)
    whoever_fails_is_named(net)
    a_slow_gpu_is_named(net)
    finish()


main()
