"""--stages: processes that each have some layers of a model, and hand microbatches on to one another, leave the bytes of one process that has all:
weights, slots, reports, evaluation and predictions; with dropout, statistics of the batch, tied tables, two optimizers, clipping, and with shards of the
model; and they say the same of what is not finite. What is not to be is refused."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
from sharded import AGAIN, case, goes_on, new_folder, train
from training import check, finish


def stages(s):
    return ["--stages", s]


clipped = case("clipped")
layouts.compare("openmpi", clipped, 6, [(2, 2), (4, 1)], *stages(2))
layouts.compare("openmpi", clipped, 8, [(3, 1), (6, 1)], *stages(3))
layouts.compare("openmpi", case("clipped", "--precision", "bf16"), 4, [(2, 1)], *stages(2))
layouts.compare("openmpi", case("lamb"), 4, [(2, 1)], *stages(2))
layouts.compare("openmpi", case("norms"), 4, [(2, 2)], *stages(2))
layouts.compare("openmpi", case("gpt"), 8, [(4, 1)], *stages(2))
layouts.compare("openmpi", case("gan"), 4, [(2, 1)], *stages(2))
for name in ("penalty", "loop", "rows", "twice"):
    layouts.compare("openmpi", case(name), 4, [(2, 2)], *stages(2))
for name in ("again", "recurrent"):
    for n in (2, 3):
        layouts.compare("openmpi", case(name), 6, [(n, 1)], *stages(n))
layouts.compare("openmpi", case("split"), 6, [(3, 1)], *stages(3))
layouts.compare("openmpi", case("split"), 6, [(8, 1)], *stages(4), "--shards-over", 2)
layouts.compare("openmpi", case("gpt", "-D", "shards=2"), 4, [(2, 1), (4, 1)], *stages(2))
layouts.compare("openmpi", case("gpt", "-D", "shards=2"), 4, [(4, 1)], *stages(2), "--shards-over", 2)
goes_on(clipped, 6, [(2, 1, *stages(2)), (3, 2), (1, 2), (3, 1, *stages(3)), (4, 1, *stages(2))])
goes_on(clipped, 6, [(4, 1, *stages(2), "--shard-optimizer"), (3, 2, "--shard-optimizer"), (6, 1, *stages(2), "--shard-optimizer"), (1, 2)])
goes_on(case("lamb"), 8, [(4, 1, *stages(2), "--shard-optimizer")])
goes_on(case("split"), 4, [(8, 1, *stages(2), "--shards-over", 2, "--shard-optimizer"), (2, 1, "--shard-optimizer"), (4, 1, *stages(2), "--shard-optimizer")])

for name, old, new in (("before", "dense(a,", "dense(log(a),"), ("behind", "dense(x + Cells(x)", "dense(log(x + Cells(x))"),
                       ("update", "adam(learning_rate: 0.003)", "sgd(learning_rate: 1e38)")):
    infinite = layouts.Case(name, AGAIN.replace(old, new), 24)
    said = {tuple(re.findall(r"train step.*", train(infinite, n, new_folder(), "--epochs", 1, "--check-numerics", *stages(n), expect=1))) for n in (1, 2, 3)}
    check(len(said) == 1 and said != {()}, f"{name}: {said}")
    print(f"{name}: {said}", flush=True)

for name, n, flags, words in (("every", 2, stages(2), "cannot be cut apart"), ("clipped", 8, stages(8), "at most 3 stages"), ("clipped", 3, stages(2), "start 2, or a multiple"),
                              ("clipped", 2, [*stages(2), "--shard-parameters"], "--shard-parameters"), ("clipped", 2, stages(65), "1 to 64 stages")):
    said = train(case(name), n, new_folder(), "--max-steps", 1, *flags, expect=1)
    check("--stages" in said and words in said, f"{name} {flags}: {said}")
finish()
