"""epoch: one pass of the training step of examples/fashion_cnn.dt over 60,000 shuffled images, batch 128, two cores, beside TensorFlow.

Ours is what `dtrun train` says of the first epoch. TensorFlow's is bench/peers/cnn_step.py --epoch: from_tensor_slices, shuffle(60000), batch,
prefetch, and a traced step for each batch; reading the files, tracing and ten steps come before its clock starts. An epoch is many steps, and
long: there is one pair, whatever --pairs says.
"""
import side_by_side as bench


def ours():
    return bench.train(bench.CNN, *bench.TWO_CORES, "--epochs", 1)[0]["epoch"]["seconds"]


def tensorflow():
    return bench.peer("cnn_step.py", "--epoch")[0]["epoch_seconds"]


def main():
    bench.n_pairs(__doc__)
    mine, theirs, ratio = bench.pairs(1, ours, tensorflow)
    bench.head("CNN epoch of 60,000 images, batch 128, 2 cores; 1 pair", "ours, s", "TensorFlow, s", "times as fast")
    bench.row("with real data and shuffling", f"{mine:.1f}", f"{theirs:.1f}", f"{ratio:.2f}")


main()
