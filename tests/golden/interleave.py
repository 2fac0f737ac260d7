"""interleave.txt: the order in which tf.data's Dataset.interleave takes rows of files. Each line: how many rows each file has, cycle_length, block_length,
then the rows, numbered through all files. bench/peers/.venv/bin/python tests/golden/interleave.py"""
import pathlib
import random

import tensorflow as tf

draw = random.Random(13)
cases = [([3], 1, 1), ([4, 4, 4], 2, 2), ([5, 1, 3], 3, 2), ([2, 7, 1, 4], 2, 3), ([10, 10], 5, 4), ([6, 2, 9, 3, 3, 1], 3, 2)]
cases += [([draw.randint(1, 12) for _ in range(draw.randint(1, 7))], draw.randint(1, 5), draw.randint(1, 5)) for _ in range(30)]
lines = []
for lengths, cycle, block in cases:
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    files = tf.data.Dataset.from_tensor_slices((tf.constant(starts, tf.int64), tf.constant(lengths, tf.int64)))
    rows = files.interleave(lambda start, n: tf.data.Dataset.range(start, start + n), cycle_length=cycle, block_length=block)
    order = [int(row) for row in rows]
    assert sorted(order) == list(range(sum(lengths)))
    lines.append(f"{','.join(map(str, lengths))} {cycle} {block}: {' '.join(map(str, order))}\n")
(pathlib.Path(__file__).parent / "interleave.txt").write_text(f"# made with TensorFlow {tf.__version__}\n" + "".join(lines))
