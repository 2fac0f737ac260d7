"""--shards-over: processes that each hold a part of the shards of a model, and add up what these give, leave the bytes of one process that has all:
weights, slots, reports, evaluation and predictions; and they say the same of what is wrong in it. What is not to be is refused."""
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
from sharded import LOOKUP, PADDED, REPORTS, SHARED, SPLIT, case, goes_on, new_folder, train
from training import check, finish


def says_the_same(case, pattern, *flags, expect, wanted=None):
    said = set() if wanted is None else {wanted}
    for n, k in ((1, 1), (2, 1), (2, 2), (4, 2), (4, 4)):
        text = train(case, n, new_folder(), "--epochs", 1, *flags, *over(k), replicas=4, expect=expect)
        said.update([tuple(re.findall(pattern, text))])
    check(len(said) == 1 and said != {()}, f"{case.name} {flags}: {said}")
    print(f"{case.name} {flags}: {said}", flush=True)


def over(k):
    return ["--shards-over", k]


net = layouts.Case("net", SPLIT, 24, inputs=["a.npy", "b.npy"])
layouts.compare("openmpi", net, 6, [(2, 2), (4, 1), (6, 1)], *over(2))
layouts.compare("openmpi", net, 4, [(4, 1), (4, 2)], *over(4))
layouts.compare("openmpi", layouts.Case("halves", SPLIT, 24, "--precision", "bf16", inputs=["a.npy", "b.npy"]), 4, [(2, 1), (4, 1)], *over(2))
layouts.compare("openmpi", layouts.Case("reports", REPORTS, 24, inputs=["a.npy", "b.npy"]), 6, [(2, 2), (4, 1)], *over(2))
layouts.compare("openmpi", case("gpt", "-D", "shards=2"), 4, [(2, 1), (4, 2)], *over(2))
padded = layouts.Case("padded", PADDED, 24, inputs=["a.npy", "b.npy"])
layouts.compare("openmpi", padded, 4, [(2, 1), (4, 1)], *over(2))
layouts.compare("openmpi", padded, 4, [(4, 1)], *over(4))
goes_on(padded, 6, [(2, 1, *over(2)), (3, 2), (4, 1, *over(4)), (1, 2), (6, 1, *over(2))])
goes_on(net, 6, [(2, 1, *over(2)), (3, 2), (4, 1, *over(4)), (1, 2), (6, 1, *over(2))])

# Processes with the same shards share out the optimizer's states of these, and parameters: of blocks of which norms are taken, and a rest.
STATES = "--shard-optimizer"
wide = layouts.Case("wide", PADDED.replace("units: 32", "units: 160").replace("f32[27, 32]", "f32[27, 160]").replace("8, 4, 1", "8, 20, 1"), 24,
                    inputs=["a.npy", "b.npy"])
lamb = layouts.Case("lamb", re.sub(r"apply\(adam.*\)", "minimize(loss, lamb(learning_rate: 0.01, weight_decay: 0.01))", SPLIT).replace("units: 32", "units: 160"),
                    24, inputs=["a.npy", "b.npy"])
turns = [(2, 1, *over(2), SHARED), (3, 2, STATES), (4, 1, *over(2), STATES), (1, 2), (4, 2, *over(2), SHARED, "--gather-rounds", 2)]
goes_on(wide, 8, turns)
goes_on(lamb, 8, turns)
layouts.compare("openmpi", lamb, 6, [(3, 1)], SHARED)
layouts.compare("openmpi", lamb, 10, [(4, 1)], *over(2), SHARED) # the second group begins with an odd microbatch; then each second round does
layouts.compare("openmpi", wide, 12, [(4, 1)], *over(2), SHARED, "--gather-rounds", 2)
layouts.compare("openmpi", case("gpt", "-D", "shards=2"), 4, [(4, 1)], *over(2), SHARED)
said = train(lamb, 4, new_folder(), "--max-steps", 1, *over(2), SHARED)
for what in ("parameters", "optimizer's states"):
    found = re.search(what + r": at most [\d.]+ MiB of [\d.]+ MiB in each of 4 processes, ([\d.]+) %", said)
    check(found and 25 <= float(found[1]) <= 29, f"4 processes have {what} that they do not say: {said}")
check("drawn whole" not in said, said)

said = train(net, 2, new_folder(), "--epochs", 1, "--log-dir", new_folder(), "--log-histograms", 1, *over(2))
for n, flags, words in ((2, over(3), "say a power of two up to 4"), (3, over(2), "start 2, or a multiple of that"),
                        (2, [*over(2), "--reduce", "fast"], "--reduce=fast")):
    said = train(net, n, new_folder(), "--max-steps", 1, *flags, expect=1)
    check(words in said, f"{flags}: {said}")
numbers = np.random.default_rng(1).integers(0, 20, size=(90, 3)).astype(np.int32)
numbers[5, 1], numbers[37, 0], numbers[80, 2] = 77, -3, 20
np.save(layouts.DATA / "i.npy", numbers)
lookup = layouts.Case("lookup", LOOKUP.replace("WRONG", "tanh(h)"), 24)
whole = layouts.Case("whole_lookup", LOOKUP.replace("WRONG", "tanh(h)").replace("mesh model = 4", "mesh model = 1"), 24)
for pattern, *flags, expect in ((r"index 77 is not within 0 to 19 \(and \d+ more out of range\)", 1), (r"\d+ indices were out of range", "--bad-index", "ignore", 0)):
    said = tuple(re.findall(pattern, train(whole, 1, new_folder(), "--epochs", 1, *flags, replicas=4, expect=expect)))
    says_the_same(lookup, pattern, *flags, expect=expect, wanted=said)
np.save(layouts.DATA / "i.npy", numbers % 20)
says_the_same(layouts.Case("log", LOOKUP.replace("WRONG", "log(h)"), 24), r"train step.*NaN.*", "--check-numerics", expect=1)
says_the_same(layouts.Case("log_of_sum", LOOKUP.replace("WRONG", "tanh(h)").replace("dense(dense(", "dense(log(dense(").replace("shard: rows)", "shard: rows))"), 24),
              r"train step.*NaN.*", "--check-numerics", expect=1)

whole = layouts.Case("whole", SPLIT.replace("mesh model = 4", ""), 24)
said = train(whole, 2, new_folder(), "--max-steps", 1, *over(2), expect=1)
check("is not split into shards" in said, said)
finish()
