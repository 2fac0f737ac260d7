"""bert, gpt: the training step of examples/bert_mlm.dt and examples/gpt.dt on two cores, beside TensorFlow, JAX and PyTorch.

Theirs is bench/peers/transformer_step.py: TensorFlow's graph, XLA, jax.jit, PyTorch eager and compiled; the median step, from call to the loss being
read, with batches ready in memory. Ours is `dtrun bench` of tests/twins, the examples with masked tokens as input as the others have them: the median
step with a batch ready in memory, two replicas. All six run in turn; a ratio is the median over these rounds of the time of the fastest other.
"""
import argparse
import json
import statistics

import side_by_side as bench

STEPS = 20
PEERS = {"tensorflow": "TensorFlow", "xla": "XLA", "jax": "JAX", "torch": "PyTorch", "compile": "compiled"}
CASES = {
    "bert": [("BERT 8 x 512", {"context": 512, "predictions": 96}, 8), ("BERT 32 x 128", {"context": 128, "predictions": 20}, 32)],
    "gpt": [("GPT 32 x 128", {}, 32)],
}


def ours(artifact, batch):
    command = [bench.ROOT / "build/dtrun", "bench", artifact, *bench.TWO_CORES, "--global-batch", batch, "--steps", STEPS, "--json"]
    return 1000 * json.loads(bench.run(command).output)["median"]


def theirs(peer, model, options, batch):
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    return bench.peer("transformer_step.py", "--model", model, "--peer", peer, "--batch", batch, "--steps", STEPS, *flags)[0]["step_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--model", choices=CASES, required=True)
    arguments = parser.parse_args()
    bench.head(f"step, 2 cores, ms; {bench.counted(arguments.pairs, 'round')} of {STEPS} steps", "ours", *PEERS.values(), "times as fast as the fastest")
    for name, options, batch in CASES[arguments.model]:
        artifact = bench.ROOT / f"build/bench_{arguments.model}_{batch}.dtx"
        program = {"bert": "bert_mlm", "gpt": "gpt"}[arguments.model]
        defines = [f"-D{option}={value}" for option, value in options.items()]
        bench.run([bench.ROOT / "build/dtc", "compile", bench.ROOT / f"tests/twins/{program}.dt", *defines, "-o", artifact])
        rounds = [(ours(artifact, batch), *(theirs(peer, arguments.model, options, batch) for peer in PEERS)) for _ in range(arguments.pairs)]
        ratio = statistics.median(min(times[1:]) / times[0] for times in rounds)
        bench.row(name, *(f"{statistics.median(times):.0f}" for times in zip(*rounds)), f"{ratio:.2f}")


main()
