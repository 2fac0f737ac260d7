"""Plans as text: what `dtc compile --emit=kernels` prints reads back to the same bytes, at each level and for GPUs, for every example, and the code made of
it is that of the program, byte for byte. A choice that is printed is one: where a number of it is changed, the code changes too, or the plan is refused."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
LEVELS = ("x86-64-v3", "x86-64-v4")
COMPILED = ("perceptron", "fashion_cnn", "lstm")  # by --full all

# What stands behind the loops of a nest. C reads operands where they are, and lets its compiler find registers: of these only, LLVM's code is looked at.
LLVM_ALONE = ("packed", "in memory")
CHANGES = (
    (r"  vector l(\d+) x 8\b", r"  vector l\1 x 4"),
    (r"  vector l(\d+) x 16\b", r"  vector l\1 x 8"),
    (r"(  tiles of .*?\d x \d) by 4\b", r"\1 by 2"),
    (r" in 2 chains by 8", r" in 4 chains by 8"),
    (r"(  packed l\d+) by (\d+)(?=\n|  |,)", lambda m: f"{m[1]} by {int(m[2]) // 2 or 1}"),
    (r"  unrolled( l\d+)+", ""),
    (r"  jammed l(\d+) by \d+", r"  jammed l\1 by 2"),
    (r" in memory\b", ""),
    (r"  order l(\d+) l(\d+)\b", r"  order l\2 l\1"),
    (r"  prefetched\n", "\n"),
)

# The same for a GPU, of which all is looked at in the text for CUDA; and whether a change is taken, where that is always one of the two.
GPU_CHANGES = (
    (r"elements by thread", "teams by warp", None),
    (r"teams by warp", "teams by block", True),
    (r"tiles by block", "tiles by warp", False),
    (r"tiles by block", "elements by thread", False),
    (r"tiles by block(.*\n *nest .*)  by . l\d+(?:\n *(?:rows|columns|stages).*)+", r"elements by thread\1", None),
    (r"scatter by warp", "elements by thread", False),
    (r"scatter by warp(.*\n *nest .*)\n *owners.*", r"elements by thread\1", True),
    (r"by (thread|warp|block)(?=   #)", r"by \1  indices of 64 bits", True),
    (r"nest (\d+)  shared (l\d+)  dealt", r"nest \1  dealt \2", None),
    (r"  dealt l0(?=\n|  )", "  in order l0", None),
    (r"  in order l0", "  dealt l0", None),
    (r"  reduced l(\d+)", r"  dealt l\1", False),
    (r"  reduced together", "  reduced", True),
    (r"  unrolled l(\d+) by \d+", r"  unrolled l\1 by 2", None),
    (r"  unrolled l(\d+) by \d+", "", True),
    (r"(nest .*)  by (\d+) l\d+", r"\1", True),
    (r"(nest .*)  by 4 l(\d+)", r"\1  by 2 l\2", None),
    (r"(nest .*)  by (\d+) l\d+", r"\1  by \2 l0", None),
    (r"rows of \d+", "rows of 16", None),
    (r"columns of \d+", "columns of 128", None),
    (r"rows of (\d+): s\d+", r"rows of \1: s9", False),
    (r"(rows .*)  over l\d+", r"\1", False),
    (r"(columns .*)  by 4 l\d+", r"\1", True),
    (r"(rows .*)  by 4 l(\d+)", r"\1  by 2 l\2", True),
    (r"term by term  by 4 l\d+", "result by result", True),
    (r"term by term  by", "result by result  by", False),
    (r"stages of 16", "stages of 32", None),
    (r"padding of \d+", "padding of 12", True),
    (r"padding of \d+", "padding of 3", False),
    (r"tensor cores 4", "tensor cores 2", None),
    (r"  tensor cores \d+ down", "", None),
    (r"owners of \d+", "owners of 3", True),
    (r"groups of \d+", "groups of 5", True),
    (r"with 8 indices", "with 4 indices", True),
    (r"with 8 indices", "with 5 indices", False),
    (r"kernel (\w+)(?=\n    \w)", r"kernel other", False),
    (r"for cuda", "for warps of 64", False),
)


def dtc(*arguments, fails=False):
    done = subprocess.run(["dtc", "compile", *map(str, arguments)], capture_output=True, timeout=120)
    assert fails or done.returncode == 0, f"dtc compile {arguments}: {done.stderr.decode()}"
    assert done.returncode in (0, 1), f"dtc compile {arguments}: exit status {done.returncode}: {done.stderr.decode()}"
    return done.stdout, done.stderr.decode()


def check_program(folder, path, level, compiled):
    plan = folder / f"{path.stem}.plan"
    dtc("--cpu", level, "--emit=kernels", path, "-o", plan)
    again, _ = dtc("--emit=kernels", plan)
    assert again == plan.read_bytes(), f"{path.name} at {level}: read back, its plans print another text"
    if compiled:
        of_program, _ = dtc("--cpu", level, "--emit=object", path)
        of_plan, _ = dtc("--emit=object", plan)
        assert of_program == of_plan and len(of_plan) > 1000, f"{path.name} at {level}: other code is made of its plans"


def check_gpu_program(folder, path):
    plan = folder / f"{path.stem}.plan"
    dtc("--target", "cuda", "--emit=kernels", path, "-o", plan)
    assert dtc("--emit=kernels", plan)[0] == plan.read_bytes(), f"{path.name}: read back, its plans for a GPU print another text"
    of_program = dtc("--target", "cuda", "--emit=cuda", path)[0]
    assert of_program == dtc("--emit=cuda", plan)[0] and len(of_program) > 1000, f"{path.name}: other code for a GPU is made of its plans"


GPU_PROGRAM = """
use losses, nn, optimizers

model Net(x: f32[B, 40], token: i32[B]) -> f32[B, 48] {
    param table: f32[100, 40] = zeros()
    hidden = relu(dense(x + table[token], units: 64))
    return dense(hidden, units: 48)
}
step train(x: f32[B, 40], token: i32[B], label: u8[B]) {
    minimize(sparse_categorical_crossentropy(label % 48, Net(x, token)), sgd(learning_rate: 0.1))
}
"""


def check_gpu_changes(folder):
    """The text for CUDA of three programs in which each form is, in f32 and for tensor cores, each choice changed once a program."""
    program, plan, seen = folder / "all_forms.dt", folder / "changed.plan", set()
    program.write_text(GPU_PROGRAM)
    for arguments in ((program, "--batch", 64), (program, "--batch", 64, "--precision", "bf16"), (SOURCE / "examples/fashion_cnn.dt", "--precision", "tf32")):
        text = dtc("--target", "cuda", "--emit=kernels", *arguments)[0].decode()
        before = dtc("--target", "cuda", "--emit=cuda", *arguments)[0]
        for pattern, replacement, taken in GPU_CHANGES:
            matches = [match for match in re.finditer(pattern, text) if match.expand(replacement) != match[0]]
            for match in matches[:: max(1, len(matches) // 2)][:2]:
                plan.write_text(text[: match.start()] + match.expand(replacement) + text[match.end() :])
                after, said = dtc("--emit=cuda", plan, fails=True)
                change = f"{match[0]!r} -> {match.expand(replacement)!r}"
                assert said.startswith(f"dtc: {plan}:") if said else after != before, f"{change}: {said or 'the same code'}"
                assert taken is None or taken == (said == ""), f"{change}: {said or 'was taken'}"
                seen.add((pattern, replacement))
        # What a library may do instead is for artifacts: of all calls together there are functions around them in the text.
        for pattern, replacement in ((r" with cleared rows", ""), (r"  or \w+_gradient|  or convolution", "  or product"), (r"for cuda", "for warps of 64")):
            plan.write_text(re.sub(pattern, replacement, text))
            assert (re.search(pattern, text) is None) == (dtc("--emit=cuda", plan)[0] == before), f"{pattern}: the text for CUDA does not follow it"
    missing = [change[:2] for change in GPU_CHANGES if change[:2] not in seen]
    assert not missing, f"no program has {missing}"


def check_gpu_errors(folder):
    plan, program = folder / "gpu.plan", SOURCE / "examples/perceptron.dt"
    good = dtc("--target", "cuda", "--emit=kernels", program)[0].decode()
    plan.write_text(good)
    assert dtc("--target", "cuda", "--emit=kernels", plan)[0].decode() == good
    for options, message in ((["--emit=asm"], "plans for GPUs become no code for CPUs"), (["--cpu", LEVELS[0], "--emit=kernels"], "plans for GPUs"),
                             (["-o", folder / "x.dtx"], "a plan says nothing of variables")):
        assert message in dtc(*options, plan, fails=True)[1]
    for change, message in (
        (lambda text: text.replace("for cuda", "for nobody"), "expected cuda"),
        (lambda text: re.sub(r"\n      nest 0.*", "", text, count=1), "expected a number of 0 to 0"),
        (lambda text: re.sub(r"(elements by thread.*\n)(?:      nest .*\n)+", r"\1", text, count=1), "expected nest"),
        (lambda text: re.sub(r"\n    elements by thread(.*\n      nest .*)+\n  kernel", "\n  kernel", text, count=1), "each nest is in one function, in order"),
        (lambda text: text.replace("  dealt l0", "  dealt l9"), "expected"),
        (lambda text: re.sub(r"(stages of \d+ terms).*", r"\1", text, count=1), "expected padding"),
        (lambda text: re.sub(r"rows of \d+", "rows of 0", text, count=1), "expected a number of 1 to"),
        (lambda text: text.replace("rows together", "rows"), "choices for a GPU are of plans whose rows run together"),
        (lambda text: re.sub(r"tiles by block", "scatter by warp", text, count=1), "expected owners of"),
    ):
        assert change(good) != good, message
        plan.write_text(change(good))
        output, said = dtc("--emit=cuda", plan, fails=True)
        assert message in said and output == b"", f"{message!r} was to be said, not {said!r}"
    plan.write_text(good[: good.index("for cuda")] if good.count("for cuda") == 1 else re.sub(r"for cuda(.*\n)(  .*\n)+", "", good))
    assert "for cuda" not in plan.read_text()  # nothing is chosen: that is done when it is compiled
    assert dtc("--emit=kernels", plan)[0] == plan.read_bytes() and b"__global__" in dtc("--emit=cuda", plan)[0]
    assert b"for cuda" in dtc("--target", "cuda", "--emit=kernels", plan)[0]
    dtc("--emit=kernels", program, "-o", plan)
    for options in (["--emit=cuda"], ["--target", "cuda", "--emit=kernels"]):
        assert "plans for CPUs become no code for GPUs" in dtc(*options, plan, fails=True)[1]


def check_unchosen(folder):
    """A plan for no target is one of all: choices are made when it is compiled."""
    program, plan = SOURCE / "examples/perceptron.dt", folder / "p.plan"
    dtc("--emit=kernels", program, "-o", plan)
    assert dtc("--emit=kernels", plan)[0] == plan.read_bytes()
    assert dtc("--emit=asm", "--cpu", LEVELS[0], plan) == dtc("--emit=asm", "--cpu", LEVELS[0], program)
    assert dtc("--emit=kernels", "--cpu", LEVELS[1], plan) == dtc("--emit=kernels", "--cpu", LEVELS[1], program)


def check_passes(folder):
    """Passes that need nothing but plans leave, one by one, the same of a text as they do on the way."""
    for name in ("fashion_cnn", "lstm"):
        program, plan, dumps = SOURCE / f"examples/{name}.dt", folder / "passes.plan", {}
        for chunk in dtc("--dump-after", "all", "--emit=kernels", program)[1].split("# after ")[1:]:
            dumped, text = chunk.split("\n", 1)
            dumps[dumped] = text
        plan.write_text(dumps["schedule"])
        for one in ("turn_sums", "late_writes", "split_reductions", "count_once", "plan_memory"):
            done = subprocess.run(["dtc", "opt", "--pass", one, plan], capture_output=True, check=True, timeout=60)
            assert done.stdout.decode() == dumps[one], f"{name}: {one} makes something else of its text"
            plan.write_bytes(done.stdout)
        for one, message in (("fuse", "the pass fuse needs the graph"), ("late_writes", "memory is planned already")):
            done = subprocess.run(["dtc", "opt", "--pass", one, plan], capture_output=True, timeout=60)
            assert done.returncode == 1 and message in done.stderr.decode(), done.stderr.decode()


def check_changes(folder, level):
    """The code of both renderers for the CNN, each choice changed once."""
    program, plan = SOURCE / "examples/fashion_cnn.dt", folder / "changed.plan"
    text = dtc("--cpu", level, "--emit=kernels", program)[0].decode()
    before = [dtc("--cpu", level, f"--emit={kind}", program)[0] for kind in ("llvm", "c")]
    n_refused = n_changed = 0
    for pattern, replacement in CHANGES:
        matches = list(re.finditer(pattern, text))
        for match in matches[:: max(1, len(matches) // 2)][:2]:
            plan.write_text(text[: match.start()] + match.expand(replacement) if isinstance(replacement, str) else text[: match.start()] + replacement(match))
            plan.write_text(plan.read_text() + text[match.end() :])
            after = [dtc(f"--emit={kind}", plan, fails=True) for kind in ("llvm", "c")]
            refused = all(message != "" for _, message in after)
            assert refused or after[0][0] != before[0], f"{level}: the same code for LLVM without {match[0]!r}"
            assert refused or any(word in match[0] for word in LLVM_ALONE) or after[1][0] != before[1], f"{level}: the same C without {match[0]!r}"
            n_refused += refused
            n_changed += not refused
    assert n_changed >= 7 and n_refused >= 1, f"{level}: {n_changed} changes of choices were taken, {n_refused} were refused"


def check_errors(folder):
    plan, good = folder / "bad.plan", dtc("--cpu", LEVELS[0], "--emit=kernels", SOURCE / "examples/perceptron.dt")[0].decode()
    for change, message in (
        (lambda text: "", "bad.plan:1:1: there is no plan here"),
        (lambda text: text.replace("plan ", "plane ", 1), "expected a line of the plan, or the next plan"),
        (lambda text: text[: text.index(" reduction 0 = ") + 12], "expected"),
        (lambda text: text.replace("l0 < B, l1 < 784", "l0 < B, l1 < 785"), "an address lies past"),
        (lambda text: text.replace("s1 = f32 load", "s1 = f64 load"), "a load has another type than its buffer"),
        (lambda text: re.sub(r"load image\[", "load picture[", text), "there is no buffer picture"),
        (lambda text: text.replace("x86-64-v3", "x86-64-v2"), "expected x86-64-v3 or x86-64-v4"),
        (lambda text: text.replace("  once, divided", "  once"), "parts in a kernel that is not divided"),
        (lambda text: text.replace("  once, divided", ", divided"), "no meeting before it, of parts"),
        (lambda text: re.sub(r"scratch at [\d,]+, ", "scratch at 900,000,000, ", text, count=1), "does not lie in its space"),
        (lambda text: text.replace("parts of 1 l0", "parts of 1 l1"), "parts are of l0"),
        (lambda text: text.replace("[784 l0 + l1]", "[784 l0 + l1 + l1]"), "l1 stands twice in an address"),
        (lambda text: re.sub(r"(result \w+: )f64", r"\1f32", text), "is not what"),
        (lambda text: re.sub(r"kernel evaluate_0\w+\(", "kernel init_0_update(", text), "there are two kernels init_0_update"),
    ):
        plan.write_text(change(good))
        output, said = dtc("--emit=asm", plan, fails=True)
        assert message in said and output == b"", f"{message!r} was to be said, not {said!r}"
    plan.write_text(dtc("--dump-after", "late_writes", "--emit=kernels", SOURCE / "examples/perceptron.dt")[1])
    assert "has no memory yet" in dtc("--emit=asm", plan, fails=True)[1]
    plan.write_text(good)
    for options, message in ((["-o", folder / "x.dtx"], "a plan says nothing of variables"), (["--emit=asm", "-D", "a=1"], "-D"), (["--emit=asm", "--batch", "3"], "--batch"),
                             (["--emit=asm", "-O", "no-tile"], "a plan has been made"), (["--emit=ir"], "a plan says nothing")):
        said = dtc(*options, plan, fails=True)[1]
        assert message in said, f"{options}: {said!r}"


def main():
    full = "--full" in sys.argv
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for path in sorted((SOURCE / "examples").glob("*.dt")):
            for level in LEVELS:
                check_program(folder, path, level, full or path.stem in COMPILED)
            check_gpu_program(folder, path)
        for path in sorted((SOURCE / "tests/programs").glob("*.dt")) if full else ():
            check_gpu_program(folder, path)
        check_gpu_changes(folder)
        check_gpu_errors(folder)
        check_unchosen(folder)
        check_passes(folder)
        for level in LEVELS:
            check_changes(folder, level)
        check_errors(folder)


if __name__ == "__main__":
    main()
