"""bench/gpu.sh by the fake driver: what it runs runs, what is missing is named, what fails is a row and an exit status. Speed is not looked at.

The other frameworks and compute-sanitizer are stand-ins here: scripts that answer as these do."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import emulated_kernels  # noqa: E402
from training import *  # noqa: E402,F403

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
IMAGES_PER_SECOND = 1000.0

PEER = f"""#!/bin/sh
case $1 in */gpu_jax.py) echo "no module named jax" >&2; exit 1 ;; esac
echo 'compiling, which is no answer'
echo '{{"peer": "torch", "version": "9.9"}}'
while read -r line; do echo '{{"images_per_second": {{"one way": [1.0, {IMAGES_PER_SECOND}, 1e9], "another": [3.0]}}, "accuracy": 0.75}}'; done
"""

SANITIZER = """#!/bin/sh
[ "$2" != "$FINDS" ] || { echo "========= RACECHECK SUMMARY: 1 hazard displayed"; exit 9; }
[ "$2" != "$LASTS" ] || exec sleep 60
echo "========= ERROR SUMMARY: 0 errors"
"""


def script(name, text):
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def gpu(part, expect, **more):
    """Runs a part; its report's JSON, and what it said."""
    out = FOLDER / part
    done = subprocess.run([SOURCE / "bench/gpu.sh", part, out], capture_output=True, text=True, env=dict(environment, **more))
    check(done.returncode == expect, f"gpu.sh {part}: exit status {done.returncode}, wanted {expect}\n{done.stdout}{done.stderr}")
    return json.loads((out / f"{part}.json").read_text()) if (out / f"{part}.json").exists() else None, done.stdout + done.stderr


if not emulated_kernels.is_possible():
    sys.exit(77)
program = FOLDER / "one.dt"
program.write_text("step one(x: f32[B, 4]) { return y: x + 1 }\n")
if subprocess.run(["dtc", "compile", "--target", "cuda:sm_90", program, "-o", FOLDER / "one.dtx"], capture_output=True).returncode != 0:
    print("skipped: NVRTC is not installed")
    sys.exit(77)

data = FOLDER / "data"
data.mkdir()
for prefix, n, seed in (("train", 64, 1), ("t10k", 16, 2)):
    images, labels = make_examples(n, seed, 28)
    (data / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images, n, 28, 28)))
    (data / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels, n)))
script("toolkit/bin/compute-sanitizer", SANITIZER)
environment = dict(os.environ, DT_CUDA_DRIVER=f"{os.environ['DT_BUILD']}/tests/libfake_cuda.so", DT_DATA=str(data), CUDA_HOME=str(FOLDER / "toolkit"),
                   PEER_PYTHON=str(script("peer", PEER)))

check("there is no GPU here" in gpu("tests", 1, FAKE_CUDA_COUNT="0")[1], "no GPU, and no word of it")
check("bench/gpu.sh tests FOLDER" in gpu("nothing", 2)[1], "no usage")

report, said = gpu("tests", 0)
check({row["name"]: row["result"] for row in report["rows"]} == dict.fromkeys(("ops", "nccl", "equal_bits", "processes", "programs", "relu_at_zero", "timeline"), "passed"), said)
report, said = gpu("tests", 1, FAKE_CUDA_FAIL="cuLaunchKernel:3=719")
check("FAILED" in {row["result"] for row in report["rows"]}, f"a launch that failed went unnoticed:\n{said}")

report, said = gpu("bench", 0)
tables = {row["table"].split(";")[0].split(",")[0] for row in report["rows"]}
check(tables == {"images a second", "kernels that memory bounds", "kernels of perceptron", "products"}, tables)
check(all(value for row in report["rows"] for name, value in row.items() if not any(word in name for word in ("JAX", "numbers", "accuracy, ours", "any order"))), f"an empty cell:\n{said}")
check(any("JAX" in note and "bench_jax.log" in note for note in report["notes"]), f"JAX is missing, and not named:\n{said}")
check(any("3 images a second with another" in note for note in report["notes"]), f"a way of the peer is not named:\n{said}")
check("dtrun: library: cuBLASLt" in (FOLDER / "bench/bench.log").read_text(), "no library was called in a training, which says so on stderr")
training = next(row["numbers"] for row in report["rows"] if "images a second" in row["table"])
check(training["torch"] == [IMAGES_PER_SECOND] and training["torch_accuracy"] == 0.75 and "jax" not in training, training)

for code, of_racecheck, settings in ((1, "NOT CLEAN", {"FINDS": "racecheck"}), (3, "not finished", {"LASTS": "racecheck"})):
    report, said = gpu("sanitize", code, **settings)
    found = {(row["name"], row["run"]): row["result"] for row in report["rows"]}
    check(found == {(tool, name): of_racecheck if tool == "racecheck" else "clean" for tool in ("memcheck", "racecheck", "synccheck", "initcheck")
                    for name in ("perceptron", "ops")}, said)
check("not finished, 2 of 8" in said and "racecheck of ops" in said, f"what did not finish is not named:\n{said}")
finish()
