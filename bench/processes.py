"""processes: training over two processes of one core each, started by mpirun, beside what else does that: a step of the CNN at global batch 128.

    two devices of one process   `dtrun train --devices cpu:2`, the same replicas: how much of the step it costs that processes exchange
    TensorFlow                   bench/peers/multi_worker.py: MultiWorkerMirroredStrategy, two workers over loopback
    PyTorch                      the same: DistributedDataParallel over Gloo

Ours are trainings on real data with the pipeline running: the mean step from the second on, which `dtrun train` reports.
"""
import json

import side_by_side as bench

STEPS = 60


def step_of(launcher, devices):
    """ms, of a training at global batch 128."""
    output = bench.run([*launcher, bench.ROOT / "build/dtrun", "train", bench.CNN, "--data", bench.DATA, "--log-format", "json", "--replicas", 2,
                        "--max-steps", STEPS, "--devices", devices], bench.AS_ROOT).output
    return 1000 * next(event["seconds_per_step"] for event in map(json.loads, output.splitlines()) if event["event"] == "epoch")


def two_processes():
    return step_of(bench.TWO_PROCESSES, "cpu:1x1")


def two_devices():
    return step_of([], "cpu:2x1")


def workers_of(peer):
    return bench.peer("multi_worker.py", "--peer", peer, "--steps", STEPS)[0]["step_ms"]


def main():
    n = bench.n_pairs(__doc__)
    runs = [(two_processes(), two_devices(), workers_of("tensorflow"), workers_of("torch")) for _ in range(n)]
    bench.head(f"CNN step, batch 128, 2 processes of one core; {bench.counted(n)} of {STEPS} steps", "ours, ms", "beside, ms", "times as fast")
    for which, name in ((1, "two devices of one process"), (2, "TensorFlow's MultiWorkerMirroredStrategy"), (3, "PyTorch's DDP over Gloo")):
        mine, theirs, ratio = bench.medians([(run[0], run[which]) for run in runs])
        bench.row(name, f"{mine:.1f}", f"{theirs:.1f}", f"{ratio:.2f}")


main()
