"""sanitize: compute-sanitizer over short runs: every op of the table, and a few steps of programs through the runtime with its graphs and copies.

It makes a program tens of times slower; so runs go side by side, and ops have been compiled before. What did not finish in time has shown nothing: it is
counted and named, and the exit status is 3 where all else is clean.
"""
import concurrent.futures
import os
import shutil
import sys

from ops import CORES, N_PARTS, parts
from report import DATA, FAKE, FOLDER, LIMIT, ROOT, Failed, Report, compile_program, gpu, run

TOOLS = {  # what each finds, and its options
    "memcheck": ["--leak-check", "no"],
    "racecheck": ["--racecheck-report", "all"],
    "synccheck": [],
    "initcheck": [],
}
STEPS = 3
SECONDS = 10 if FAKE else LIMIT  # of a run
CLEAN, NOT_FINISHED, NOT_CLEAN = "clean", "not finished", "NOT CLEAN"  # the worse ones last
PROGRAMS = ["perceptron"] if FAKE else ["perceptron", "fashion_cnn"]


def find_sanitizer():
    places = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    found = shutil.which("compute-sanitizer") or next((f"{place}/bin/compute-sanitizer" for place in places
                                                       if place and os.path.exists(f"{place}/bin/compute-sanitizer")), None)
    if found is None:
        sys.exit("bench/gpu.sh sanitize: there is no compute-sanitizer here; it comes with the CUDA toolkit")
    return found


def training(artifact):
    return ["dtrun", "train", artifact, "--data", DATA, "--devices", "cuda:0", "--max-steps", STEPS, "--replicas", 2, "--global-batch", 32, "--library", "none"]


def compile_ops():
    """Runs them as they are. With the fake there are no kernels for them, and the sanitizer is one that does not run what it is given."""
    if FAKE:
        return
    with concurrent.futures.ThreadPoolExecutor(N_PARTS) as pool:
        list(pool.map(lambda part: run([os.environ["DT_GPU_OPS"]], environment=part), parts()))


def sanitize(tool, command, environment):
    """(result, log)"""
    try:
        return CLEAN, run([sanitizer, "--tool", tool, "--error-exitcode", 9, *TOOLS[tool], *command], timeout=SECONDS, environment=environment)
    except Failed as failure:
        return NOT_CLEAN if "exit status" in str(failure) else NOT_FINISHED, f"{failure.log}\n{failure}"


def row(tool, name, outcomes):
    """Of all parts of a run: the worst counts."""
    results = [result for result, _ in outcomes]
    worst = max(results, key=(CLEAN, NOT_FINISHED, NOT_CLEAN).index)
    lines = [line for result, log in outcomes if result == worst for line in log.splitlines()]
    about = [line for line in lines if "SUMMARY" in line or "took longer" in line or "no time" in line or "exit status" in line]
    (FOLDER / f"sanitize_{tool}_{name}.log").write_text("\n".join(log for _, log in outcomes))
    report.row(tool, name, worst, f"{results.count(CLEAN)} of {len(results)}", about[-1].replace("========= ", "") if about else "")
    return worst


sanitizer = find_sanitizer()
report = Report("sanitize")
architecture = gpu()[1]
report.table("compute-sanitizer", "run", "result", "clean parts", "what it says")
try:
    programs = {name: compile_program(architecture, ROOT / f"examples/{name}.dt", name, "--batch", "16") for name in PROGRAMS}
    compile_ops()
except Failed as failure:
    report.row("no tool yet", "", NOT_CLEAN, "", str(failure))
    sys.exit(1)

apart = {"DT_CUDA_CHECK": "memory"}  # memcheck sees what lies between allocations
runs = {name: [(training(artifact), apart)] for name, artifact in programs.items()} | {"ops": [([os.environ["DT_GPU_OPS"]], part) for part in parts()]}
found = {}
with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
    going = {(tool, name): [pool.submit(sanitize, tool, *part) for part in of_it] for name, of_it in runs.items() for tool in TOOLS}
    for (tool, name), outcomes in going.items():
        found[tool, name] = row(tool, name, [outcome.result() for outcome in outcomes])
missing = [f"{tool} of {name}" for (tool, name), result in found.items() if result == NOT_FINISHED]
if missing:
    report.say(f"not finished, {len(missing)} of {len(found)}, and so nothing is known of: {', '.join(missing)}")
sys.exit(1 if NOT_CLEAN in found.values() else 3 if missing else 0)
