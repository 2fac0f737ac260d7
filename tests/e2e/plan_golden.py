"""The plan of the CNN's training step, kept as text: kernels, nests, what they load, reduce and store, and what crosses replicas.

A change of the passes shows here as a change of the plan. With --update the golden text is written anew, to be read in the diff.
What must hold of any plan is checked apart from the text: at most 20 kernels, and none of elementwise nests alone but the optimizer's and what lays weights out.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
GOLDEN = SOURCE / "tests/golden/plans/fashion_cnn.txt"
MOST_KERNELS = 20


def kernels_of(step):
    """The text of --emit=kernels for one step."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernels.txt"
        subprocess.run(["dtc", "compile", SOURCE / "examples/fashion_cnn.dt", "--emit=kernels", "-o", path], check=True)
        text = path.read_text()
    plans = re.split(r"^(?=plan )", text, flags=re.MULTILINE)
    return next(plan for plan in plans if plan.startswith(f"plan {step}: "))


def outline(plan):
    """Without the scalar instructions: loads, reductions and stores remain."""
    scalar = re.compile(r"^ {6}s\d+ = \w+ (?!load )")
    return "".join(line + "\n" for line in plan.splitlines() if not scalar.match(line))


def check_kernels(plan):
    kernels = re.split(r"^(?=  kernel )", plan, flags=re.MULTILINE)[1:]
    assert 0 < len(kernels) <= MOST_KERNELS, f"{len(kernels)} kernels in a step"
    for kernel in kernels:
        first = kernel.splitlines()[0]
        assert "reduction 0 = " in kernel or "  update" in first or "_pack(" in first, f"only elementwise:\n{first}"
    updates = [kernel for kernel in kernels if "  update" in kernel.splitlines()[0]]
    divided = [kernel for kernel in updates if "divided" in kernel.splitlines()[0]]
    assert len(divided) == 1, f"{len(divided)} divided kernels write variables"
    assert all(kernel.count("\n    nest") == 1 for kernel in updates if kernel not in divided), "more than the count of steps waits for the update"


def main():
    plan = kernels_of("train")
    check_kernels(plan)
    found = outline(plan)
    if "--update" in sys.argv:
        GOLDEN.write_text(found)
    expected = GOLDEN.read_text()
    if found == expected:
        return 0
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(found)
        file.flush()
        subprocess.run(["diff", "-u", GOLDEN, file.name])
    print("the plan differs from tests/golden/plans/fashion_cnn.txt; if it should, run this with --update and read the diff")
    return 1


if __name__ == "__main__":
    sys.exit(main())
