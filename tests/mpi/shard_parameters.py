"""--shard-parameters: processes that each keep a share of the parameters, and gather those of a layer when they compute it, leave the bytes of one
process that has all: weights, slots, reports, evaluation and predictions, whatever a layer is and whatever is made of gradients. What is not to be is
refused."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
from sharded import SHARED, case, goes_on, new_folder, train
from training import check, finish

clipped = case("clipped")
layouts.compare("openmpi", clipped, 6, [(2, 2), (3, 1), (4, 1)], SHARED)
layouts.compare("openmpi", case("clipped", "--precision", "bf16"), 4, [(2, 1)], SHARED)
layouts.compare("openmpi", case("lamb"), 4, [(4, 1)], SHARED)
layouts.compare("openmpi", case("norms"), 4, [(2, 2)], SHARED)
layouts.compare("openmpi", case("gpt"), 8, [(3, 2)], SHARED)
layouts.compare("openmpi", case("gan"), 4, [(2, 1)], SHARED)
layouts.compare("openmpi", case("penalty"), 4, [(2, 2)], SHARED)
for name in ("loop", "rows", "twice"):
    layouts.compare("openmpi", case(name), 4, [(2, 1)], SHARED)
layouts.compare("openmpi", clipped, 6, [(2, 2), (4, 1)], SHARED, "--gather-rounds", 2)
layouts.compare("openmpi", case("norms"), 8, [(2, 1), (3, 1)], SHARED, "--gather-rounds", 3)
layouts.compare("openmpi", case("every"), 4, [(3, 1)], SHARED)
goes_on(clipped, 6, [(2, 1, SHARED), (3, 2), (1, 2), (4, 1, SHARED)])

said = train(clipped, 2, new_folder(), "--max-steps", 2, SHARED, "--check-numerics")
for flags, words in ((["--placement", "central", "--devices", "cpu:2"], "--placement"),):
    said = train(clipped, 2, new_folder(), "--max-steps", 1, SHARED, *flags, expect=1)
    check("--shard-parameters" in said and words in said, f"{flags}: {said}")
for flags in (["--gather-rounds", 2], [SHARED, "--gather-rounds", 2000]):
    said = train(clipped, 2, new_folder(), "--max-steps", 1, *flags, expect=1)
    check("1 to 1024, with --shard-parameters" in said, f"{flags}: {said}")
finish()
