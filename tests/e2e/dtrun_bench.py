"""dtrun bench: every kernel of the step with its time and its lines, shares that add up, two programs in turn, wrong names. Never how long."""
import os
import sys
import zipfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403


def bench(program, *flags):
    done = subprocess.run(["dtrun", "bench", str(program), "--json", "--steps", "5", *map(str, flags)], capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"dtrun bench {flags}: {done.stderr}")
    return json.loads(done.stdout)


def assert_sound(found, n_kernels, calls):
    check(len(found["kernels"]) == n_kernels, [k["name"] for k in found["kernels"]])
    for kernel in found["kernels"]:
        check(kernel["seconds"] > 0 and kernel["share"] > 0 and kernel["bytes"] > 0 and kernel["lines"], kernel)
        check(kernel["calls"] in calls, kernel)
    shares = sum(k["share"] for k in found["kernels"]) + found["exchange_share"] + found["rest_share"]
    check(abs(shares - 1) < 1e-6 and found["exchange_share"] >= 0 and found["rest_share"] > -1e-6, shares)
    check(found["steps"] == 5 and 0 < found["p10"] <= found["median"] <= found["p90"], found)
    check(found["peak_flops"] > 0 and found["peak_bytes"] > 0 and found["bad_indices"] == 0, found)
    check(abs(found["examples_per_second"] * found["median"] / found["global_batch"] - 1) < 1e-9, found)


def kernels_of(program, step):
    functions = json.loads(zipfile.ZipFile(program).read("manifest.json"))["functions"]
    return next(f for f in functions if f["name"] == step)["plan"]["kernels"]


fashion = FOLDER / "fashion.dtx"
program = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/programs/cnn_plain.dt"
made = subprocess.run(["dtc", "compile", program, "-o", fashion], capture_output=True, text=True)
check(made.returncode == 0, made.stderr)
kernels = kernels_of(fashion, "train")

one = bench(fashion, "--global-batch", 8, "--devices", "cpu:1x1")
assert_sound(one, len(kernels), {1})
check([k["name"] for k in one["kernels"]] == [k["name"] for k in kernels], "other kernels than the artifact's")
check(all(k["flops"] == m["flops_per_row"] * 8 + m["flops_fixed"] for k, m in zip(one["kernels"], kernels)), "flops")
check(all(k["bytes"] == m["bytes_per_row"] * 8 + m["bytes_fixed"] for k, m in zip(one["kernels"], kernels)), "bytes")

two = bench(fashion, "--global-batch", 8, "--replicas", 2, "--devices", "cpu:2x1", "--cpu", "x86-64-v3")
assert_sound(two, len(kernels), {1, 2})  # the count of steps, which cannot be divided, is one core's
check(two["level"] == "x86-64-v3" and two["devices"] == 2 and two["replicas"] == 2 and two["exchange_share"] > 0, two)

net, data = compile_program(), write_data()
pair = bench(net, "--vs", net, "--data", data, "--global-batch", 24)
assert_sound(pair, len(kernels_of(net, "train")), {1, 2})  # two microbatches; the update in a part for each core
assert_sound(pair["vs"], len(pair["kernels"]), {1, 2})
check(abs(pair["ratio"] - pair["vs"]["median"] / pair["median"]) < 1e-9, pair["ratio"])
assert_sound(bench(net, "--step", "predict"), len(kernels_of(net, "predict")), {1, 2})

table = subprocess.run(["dtrun", "bench", net, "--steps", "2"], capture_output=True, text=True)
check(table.returncode == 0 and "examples/s" in table.stdout and "net.dt:" in table.stdout, table.stdout)
wrong = subprocess.run(["dtrun", "bench", net, "--step", "trian"], capture_output=True, text=True)
check(wrong.returncode == 1 and "has no step trian; --step picks one of its own: train, evaluate, predict" in wrong.stderr, wrong.stderr)
lost = subprocess.run(["dtrun", "bench", net, "--from", "train_set"], capture_output=True, text=True)
check(lost.returncode == 1 and "needs --data" in lost.stderr, lost.stderr)
few = subprocess.run(["dtrun", "bench", net, "--step", "evaluate", "--data", data, "--replicas", "8"], capture_output=True, text=True)
check(few.returncode == 1 and "less than one global batch" in few.stderr, few.stderr)
large = subprocess.run(["dtrun", "bench", net, "--steps", "1", "--replicas", "3200"], capture_output=True, text=True)
check(large.returncode == 0 and "note: 1 step of 102400 rows" in large.stderr, large.stderr)
helped = subprocess.run(["dtrun", "bench", "--help"], capture_output=True, text=True)
check(all(f"--{flag}" in helped.stdout for flag in ("data", "step", "steps", "replicas", "devices", "cpu", "json", "vs")), helped.stdout)
finish()
