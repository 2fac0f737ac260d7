"""servers: steps a second of two workers of one core each with two parameter servers, beside TensorFlow's ParameterServerStrategy with as many of both on the
same cores (bench/peers/parameter_servers.py). A step is one batch of 64 of the CNN, by one worker.

Ours is `dtrun train --local-servers 2 --workers 2`, whose workers wait for nobody, as TensorFlow's; and the same with `--staleness 0 --replicas 2`: there a step
of the training is two of these, and waits for both workers, for it has the bits of any other layout. Ours is on real data with the pipeline running, the
mean from the second step on.
"""
import json

import side_by_side as bench

STEPS = 200  # of one worker
N = 2


def ours(is_synchronous):
    """Steps of one worker a second."""
    n = N if is_synchronous else 1  # in a step of the training
    output = bench.run([bench.ROOT / "build/dtrun", "train", bench.CNN, "--data", bench.DATA, "--log-format", "json", "--max-steps", STEPS // n,
                        "--devices", "cpu:1x1", "--local-servers", N, "--workers", N, *(["--staleness", 0, "--replicas", N] if is_synchronous else [])]).output
    return n / next(event["seconds_per_step"] for event in map(json.loads, output.splitlines()) if event["event"] == "epoch")


def theirs():
    return bench.peer("parameter_servers.py", "--steps", STEPS)[0]["steps_per_second"]


def main():
    n = bench.n_pairs(__doc__)
    bench.head(f"batches of 64 of the CNN a second, 2 workers and 2 servers on 2 cores; {bench.counted(n)} of {STEPS}", "ours", "TensorFlow", "times as fast")
    for name, is_synchronous in (("asynchronous", False), ("ours synchronous", True)):
        their, our, ratio = bench.medians([(theirs(), ours(is_synchronous)) for _ in range(n)])  # of the second to the first: more is better here
        bench.row(name, f"{our:.1f}", f"{their:.1f}", f"{ratio:.2f}")


main()
