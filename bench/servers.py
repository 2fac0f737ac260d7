"""servers: steps a second of two workers of one core each with two parameter servers, beside TensorFlow's ParameterServerStrategy with as many of both on the
same cores (bench/peers/parameter_servers.py). A step is one batch of 64 of the CNN, by one worker.

Ours is `dtrun train --local-servers 2 --workers 2 --replicas 2`: a step of the training is two of these, and waits for both workers, for it has the bits of
any other layout. TensorFlow's workers wait for nobody. Ours is on real data with the pipeline running, the mean from the second step on.
"""
import json

import side_by_side as bench

STEPS = 100  # of the training; twice as many of one worker
N = 2


def ours():
    """Steps of one worker a second."""
    output = bench.run([bench.ROOT / "build/dtrun", "train", bench.CNN, "--data", bench.DATA, "--log-format", "json", "--replicas", N, "--max-steps", STEPS,
                        "--devices", "cpu:1x1", "--local-servers", N, "--workers", N]).output
    return N / next(event["seconds_per_step"] for event in map(json.loads, output.splitlines()) if event["event"] == "epoch")


def theirs():
    return bench.peer("parameter_servers.py", "--steps", N * STEPS)[0]["steps_per_second"]


def main():
    n = bench.n_pairs(__doc__)
    their, our, ratio = bench.medians([(theirs(), ours()) for _ in range(n)])  # the ratio is of the second to the first: more is better here
    bench.head(f"batches of 64 of the CNN a second, 2 workers and 2 servers on 2 cores; {bench.counted(n)} of {N * STEPS}", "ours", "TensorFlow", "times as fast")
    bench.row("parameter servers", f"{our:.1f}", f"{their:.1f}", f"{ratio:.2f}")


main()
