"""dtc-bench-kernel: every kind of kernel is compared with the interpreter and timed, counts are those of the definition, mistakes are named.
Never how long."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403


def call(*words):
    return subprocess.run(["dtc-bench-kernel", *words], capture_output=True, text=True)


def measure(*words):
    """The object, with what is true of all."""
    done = call(*words, "--json")
    check(done.returncode == 0, f"{words}: {done.stderr}")
    found = json.loads(done.stdout)
    ours = found["times"][0]
    check(ours["name"] == "dtc" and ours["seconds"] > 0 and ours["flops_of_peak"] > 0 and ours["bytes_of_peak"] > 0, found)
    check(found["peak_flops"] > 0 and found["peak_bytes"] > 0 and found["checked_rows"] >= 1, found)
    for peer in found["times"][1:]:
        check(peer["version"] is not None or peer["seconds"] is None, peer)
    return found


def assert_counts(words, flops, n_bytes, checked_rows=None):
    found = measure(*words)
    check((found["flops"], found["bytes"]) == (flops, n_bytes), f"{words}: {found['flops']} flops, {found['bytes']} bytes")
    check(checked_rows in (None, found["checked_rows"]), f"{words}: {found['checked_rows']} rows")
    return found


def assert_wrong(words, message):
    done = call(*words)
    check(done.returncode == 2 and message in done.stderr and not done.stdout, f"{words}: exit {done.returncode}: {done.stderr}")


if "avx2" not in open("/proc/cpuinfo").read():
    print("skipped: this machine is below x86-64-v3")
    sys.exit(77)

# ---- products, convolutions, formulas ----
product = assert_counts(["matmul", "7x33x9"], 2 * 7 * 33 * 9, 4 * (7 * 33 + 33 * 9 + 7 * 9), 7)
check([t["name"] for t in product["times"]] == ["dtc", "OpenBLAS", "oneDNN"], product["times"])
assert_counts(["matmul", "7x33x9", "--transpose-a", "--transpose-b"], 2 * 7 * 33 * 9, 4 * (7 * 33 + 33 * 9 + 7 * 9), 33)
assert_counts(["matmul", "7x33x9", "--batch", "5"], 5 * 2 * 7 * 33 * 9, 5 * 4 * (7 * 33 + 33 * 9 + 7 * 9), 5)
check(assert_counts(["matmul", "64x1024x512"], 2 * 64 * 1024 * 512, 4 * (64 * 1024 + 1024 * 512 + 64 * 512))["checked_rows"] < 64, "all rows checked")
odd = ["conv2d", "2x9x7x6", "--filters", "10", "--kernel", "3x5", "--stride", "2x1", "--padding", "same"]
flops = 2 * 2 * 5 * 7 * 10 * 3 * 5 * 6
for options, divisor in (([], 1), (["--gradient", "input"], 1), (["--gradient", "kernel"], 1), (["--groups", "2"], 2)):
    found = measure(*odd, *options)
    check(found["flops"] == flops / divisor, f"{options}: {found['flops']} instead of {flops / divisor}")
check(measure("conv2d", "2x9x9x8", "--groups", "8")["flops"] == 2 * 2 * 7 * 7 * 8 * 9, "depthwise")
check(measure("conv2d", "2x9x9x8", "--cpu", "x86-64-v3")["level"] == "x86-64-v3", "--cpu")
assert_counts(["elementwise", "x * y + 1", "1000"], 2000, 12000, 1000)
assert_counts(["elementwise", "relu(x + b)", "10x33", "--input", "b=33", "--between", "-2,0.5"], 2 * 330, 4 * (330 + 33 + 330), 10)
exp = measure("elementwise", "exp(x)", "1000")
check([t["name"] for t in exp["times"]] == ["dtc", "libmvec", "oneDNN"], exp["times"])

# ---- people ----
table = call("matmul", "8x8x8")
check(table.returncode == 0 and "results of 8 rows are the interpreter's" in table.stdout and "of peak" in table.stdout, table.stdout)
check(all(word in table.stdout for word in ("GFLOP/s", "GB/s", "OpenBLAS", "oneDNN")), table.stdout)
helped = call("--help")
options = ("cpu", "json", "batch", "transpose-a", "transpose-b", "filters", "kernel", "stride", "padding", "groups", "gradient", "input", "between")
check(helped.returncode == 0 and all(f"--{option}" in helped.stdout for option in options), helped.stdout)

# ---- mistakes ----
assert_wrong([], "which kernel? matmul, conv2d or elementwise")
assert_wrong(["pool", "3"], 'there is no kernel "pool"')
assert_wrong(["matmul"], "which sizes? As in: dtc-bench-kernel matmul 512x512x512")
assert_wrong(["matmul", "3x3"], 'the sizes of matmul are MxKxN, whole numbers of 1 or more, as in 512x512x512, not "3x3"')
assert_wrong(["matmul", "3x0x3"], 'not "3x0x3"')
assert_wrong(["matmul", "3x3x3", "4"], 'what is "4"?')
assert_wrong(["matmul", "3x3x3", "--filters", "4"], "--filters means nothing for matmul")
assert_wrong(["matmul", "99999x99999x9"], "a would have 9999800001 elements")
assert_wrong(["matmul", "3x3x3", "--cpu", "sparc"], "--cpu takes x86-64-v3, x86-64-v4 or native, not sparc")
assert_wrong(["conv2d", "1x2x2x3"], "a kernel of 3 does not fit into images of 2: --padding same lets it reach over the border")
assert_wrong(["conv2d", "1x9x9x6", "--groups", "4"], "do not fall into 4 groups")
assert_wrong(["conv2d", "1x9x9x6", "--padding", "full"], "--padding takes valid or same, not full")
assert_wrong(["elementwise", "1 + 2", "9"], "no inputs: name at least one")
assert_wrong(["elementwise", "exp(x", "9"], ") is missing")
assert_wrong(["elementwise", "nosuch(x)", "9"], "unknown name nosuch")
assert_wrong(["elementwise", "x + b", "9", "--input", "c=9"], "--input c=9: the formula has no such input: x + b")
assert_wrong(["elementwise", "x", "9", "--input", "x=9"], "one input at least has rows")
assert_wrong(["elementwise", "x", "9", "--between", "1"], "--between takes two numbers")

finish()
