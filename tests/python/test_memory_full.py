"""Each allocation of the extension's own fails: all of what test_memory.py takes samples of."""
import test_memory


def test_each_allocation_of_ours_may_fail(tmp_path):
    counts = test_memory.run(tmp_path, 1)
    assert counts["session"] > 500 and counts["open"] > 200 and counts["compile"] > 100, counts
