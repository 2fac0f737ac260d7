"""sanitize: compute-sanitizer over short runs: every op of the table, and a few steps of programs through the runtime with its graphs and copies.

It makes a program tens of times slower; so each run gets its share of the time, and one that did not fit is said to be so.
"""
import os
import shutil
import sys
import time

from report import DATA, FAKE, FOLDER, ROOT, Failed, Report, compile_program, gpu, left, run

TOOLS = {  # what each finds, and its options
    "memcheck": ["--leak-check", "no"],
    "racecheck": ["--racecheck-report", "all"],
    "synccheck": [],
    "initcheck": [],
}
STEPS = 3
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


sanitizer = find_sanitizer()
report = Report("sanitize")
architecture = gpu()[1]
programs = {name: compile_program(architecture, ROOT / f"examples/{name}.dt", name, "--batch", "16") for name in PROGRAMS}
runs = {"ops": [os.environ["DT_GPU_OPS"]]} | {name: training(artifact) for name, artifact in programs.items()}
wanted = [(tool, name) for name in (*programs, "ops") for tool in TOOLS]

report.table("compute-sanitizer", "run", "result", "seconds", "what it says")
os.environ["DT_CUDA_CHECK"] = "memory"  # memcheck sees what lies between allocations
found_something = False
for i, (tool, name) in enumerate(wanted):
    began, share = time.monotonic(), left() / (len(wanted) - i) * 2
    command = [sanitizer, "--tool", tool, "--error-exitcode", 9, *TOOLS[tool], *runs[name]]
    try:
        log, result = run(command, timeout=share), "clean"
    except Failed as failure:
        log = f"{failure.log}\n{failure}"
        result = "NOT CLEAN" if "exit status" in str(failure) else "not finished"
        found_something |= result == "NOT CLEAN"
    (FOLDER / f"sanitize_{tool}_{name}.log").write_text(log)
    about = [line for line in log.splitlines() if "SUMMARY" in line or "time" in line or "exit status" in line]
    report.row(tool, name, result, f"{time.monotonic() - began:.0f}", about[-1].replace("========= ", "") if about else "")
sys.exit(found_something)
