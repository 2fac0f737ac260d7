"""A mask of attention may be [B, S], [T, S], [B, T, S] or [B, heads, T, S]: those that say the same give the same bits, and the lower triangle is `causal`."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))

import programs

PROGRAM = """
use nn

model Net(x: f32[B, 5, 8], causal: bool, masks) -> f32[B, 5, 8] { return multi_head_attention(x, heads: 2, mask: masks, causal: causal) }

step predict(x: f32[B, 5, 8], seen: bool[B, 5]) {
    before = iota([5, 5], axis: 0) >= iota([5, 5], axis: 1)
    wide = broadcast(before, [B, 5, 5])
    return causal: Net(x, true, none), positions: Net(x, false, before), examples: Net(x, false, wide),
           heads: Net(x, false, broadcast(before, [B, 2, 5, 5])), rows: Net(x, false, seen), row_pairs: Net(x, false, broadcast(seen[:, newaxis], [B, 5, 5]))
}
"""

checks = programs.Checks()
source = np.random.default_rng(3)
given = {"input/x": source.standard_normal((4, 5, 8), np.float32), "input/seen": np.arange(5) < source.integers(1, 6, (4, 1))}
told = programs.execute(programs.compile(programs.write(PROGRAM), batch=4), "predict", given, seed=2)
for one, others in (("causal", ("positions", "examples", "heads")), ("rows", ("row_pairs",))):
    for other in others:
        checks.that(told[f"result/{one}"].tobytes() == told[f"result/{other}"].tobytes(), f"{other} is not {one}")
checks.that(not np.allclose(told["result/causal"], told["result/rows"]), "the masks do nothing")
checks.finish()
