"""mask_tokens of the library: how many tokens of each row are picked, which, and what becomes of them, counted over 250,000 tokens; limits of five standard deviations."""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

ROWS, LENGTH, LIMIT, MASK, BELOW, KEEP = 4096, 64, 8, 103, 1000, (0, 101, 102)
program = compile_program(f"""
use text
step look(token: i32[B, {LENGTH}]) {{
    masked, position, label, weight = mask_tokens(token, rate: 0.15, limit: {LIMIT}, mask_id: {MASK}, random_below: {BELOW}, keep: [0, 101, 102])
    return masked: masked, position: position, label: label, weight: weight
}}
""", "mask")

# rows of any length: [CLS], tokens that are no special ones, [SEP], padding
numbers = numpy.random.default_rng(1)
token = numbers.integers(200, BELOW, (ROWS, LENGTH), dtype=numpy.int32)
n_tokens = numbers.integers(0, LENGTH - 1, ROWS)
places = numpy.arange(LENGTH)
token[:, 0] = 101
token[places > n_tokens[:, None] + 1] = 0
token[numpy.arange(ROWS), n_tokens + 1] = 102
numpy.save(FOLDER / "token.npy", token)
Run("predict", program, "--step", "look", "--input", FOLDER / "token.npy", "--output", FOLDER / "out")
masked, position, label, weight = (numpy.load(next((FOLDER / "out").glob(f"{name}*.npy"))) for name in ("masked", "position", "label", "weight"))

# how many: 15 % of the tokens that may be, rounded, at most `limit`
wanted = numpy.minimum(numpy.rint(n_tokens.astype(numpy.float32) * numpy.float32(0.15)), LIMIT).astype(int)
check((weight.sum(1) == wanted).all() and set(numpy.unique(weight)) == {0, 1}, "a row has another number of predictions")
check((wanted == LIMIT).sum() > 200 and (wanted == 0).sum() > 50, "rows that the limit holds for, and rows without any")

# which: each once, none that is kept, and the prediction says what stood there
rows, nth = numpy.nonzero(weight)
at = position[rows, nth]
check(len(set(zip(rows, at))) == len(rows), "a position is picked twice")
check((label == numpy.take_along_axis(token, position, 1)).all(), "a label is not the token at its position")
check(not numpy.isin(token[rows, at], KEEP).any(), "a token that is to be kept is picked")
picked = numpy.zeros(token.shape, bool)
picked[rows, at] = True
check((masked[~picked] == token[~picked]).all(), "a token that was not picked is another one")


def near(name, n, of, chance):
    deviations = abs(n - of * chance) / (of * chance * (1 - chance)) ** 0.5
    check(deviations < 5, f"{name}: {n} of {of}, wanted {chance:.0%}: {deviations:.1f} standard deviations off")


# what becomes of them: 80 % [MASK], 10 % a token drawn from all, 10 % themselves
before, after = token[picked], masked[picked]
random = (after != MASK) & (after != before)
near("[MASK]", (after == MASK).sum(), len(after), 0.8 + 0.1 / BELOW)
near("themselves", (after == before).sum(), len(after), 0.1 + 0.1 / BELOW)
near("random", random.sum(), len(after), 0.1 * (1 - 2 / BELOW))
check(after.min() >= 0 and after.max() < BELOW, "a token out of range")
for part in range(4):
    near(f"quarter {part} of the random ones", ((after[random] * 4 // BELOW) == part).sum(), random.sum(), 0.25)

# every place alike: of long rows, each place that may be is picked as often
long = n_tokens >= 60
inner = picked[long][:, 1:61]
for place in range(60):
    near(f"place {place}", inner[:, place].sum(), long.sum(), wanted[long].sum() / n_tokens[long].sum())
finish()
