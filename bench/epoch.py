"""epoch: one pass of the training step of examples/fashion_cnn.dt over 60,000 shuffled images, batch 128, two cores, beside TensorFlow.

Ours is what `dtrun train` says of the first epoch. TensorFlow's is bench/peers/cnn_step.py --epoch: from_tensor_slices, shuffle(60000), batch,
prefetch, and a traced step for each batch; reading the files, tracing and ten steps come before its clock starts. Some of its runs take nearly
twice as long as others, so that of its runs the fastest counts; of ours the median.
"""
import statistics

import side_by_side as bench


def ours():
    return bench.train(bench.CNN, *bench.TWO_CORES, "--epochs", 1)[0]["epoch"]["seconds"]


def tensorflow():
    return bench.peer("cnn_step.py", "--epoch")[0]["epoch_seconds"]


def main():
    n = bench.n_pairs(__doc__)
    runs = [(ours(), tensorflow()) for _ in range(n)]
    mine, theirs = statistics.median(run[0] for run in runs), min(run[1] for run in runs)
    bench.head(f"CNN epoch of 60,000 images, batch 128, 2 cores; {bench.counted(n)}", "ours, s", "TensorFlow, fastest, s", "times as fast")
    bench.row("with real data and shuffling", f"{mine:.1f}", f"{theirs:.1f}", f"{theirs / mine:.2f}")


main()
