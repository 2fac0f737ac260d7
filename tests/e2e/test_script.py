"""scripts/test.sh: what fails, or is skipped, is in its last lines and in its exit status. It runs in a folder of its own, where the programs that it calls do
as each case says."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])

PROGRAMS = {
    "bin/cmake": 'echo "cmake $*" >> calls; [ "$2" != "${FAILING_BUILD-}" ]',
    "bin/ctest": 'echo "ctest $*" >> calls; cp tests.xml "$2"; [ "$2" != "${FAILING_TESTS-}" ]',
    "bin/clang": "echo 14.0.6",
    "scripts/analyze.sh": 'echo "analyze $*" >> calls',
    "scripts/install.sh": 'echo "install $*" >> calls',
    "scripts/bare.sh": 'echo "bare $*" >> calls; echo "${BARE_SAYS-}"; exit ${BARE_ENDS-0}',
    ".venv/bin/python": "",
}
SANITIZED = ["tests, address and undefined behaviour", "tests, threads"]
STAGES = ["tests", "static analysis", *SANITIZED, "fuzzers", "on a bare Debian"]


def run(*flags, skips=(), **environment):
    """Exit status, the last lines (from the first stage's time on), and the calls of a test.sh where tests are skipped for these reasons."""
    with tempfile.TemporaryDirectory(prefix="dt-test-") as folder:
        folder = pathlib.Path(folder)
        for name, text in PROGRAMS.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/bin/bash\n{text}\n")
            path.chmod(0o755)
        for name in ("scripts/test.sh", "tests/tools/skips.py"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, folder / name)
        for name in ("build", "build-asan", "build-tsan", "build-fuzz"):
            (folder / name).mkdir()
        cases = [f'<testcase name="unit.skipped_{i}" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>{reason}</system-out></testcase>'
                 for i, reason in enumerate(skips)]
        (folder / "tests.xml").write_text(f'<testsuite><testcase name="unit.good" status="run"><system-out>ok</system-out></testcase>{"".join(cases)}</testsuite>')
        done = subprocess.run(["scripts/test.sh", *flags], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "DT_NVRTC": "/nowhere", **environment})
        lines = done.stdout.splitlines()
        first = max((i for i, line in enumerate(lines) if line == ""), default=-1)
        return done.returncode, lines[first + 1:], (folder / "calls").read_text()


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def all_is_well():
    code, last, calls = run()
    check(code == 0 and len(last) == 1 and last[0].endswith("passed   tests"), (code, last))
    check("g++" in calls and "unzip" in calls, calls)
    code, last, calls = run("--full")
    check(code == 0 and [line[16:].strip() for line in last] == STAGES and all("passed" in line for line in last), (code, last))
    check("quickstart.sh" in calls and "test.sh" in calls, calls)


def a_build_that_fails_is_not_tested():
    for folder, name in (("build-asan", SANITIZED[0]), ("build-tsan", SANITIZED[1]), ("build-fuzz", "fuzzers")):
        code, last, calls = run("--full", FAILING_BUILD=folder)
        check(code != 0 and last[-1] == f"FAILED: {name}", (code, last))
        check(f"ctest --test-dir {folder}" not in calls, f"{folder} does not build, and what is there of an old build is tested: {calls}")
        check("ctest --test-dir build " in calls and "bare" in calls, f"the other stages are run all the same: {calls}")


def a_test_that_fails_is_told():
    code, last, _ = run(FAILING_TESTS="build")
    check(code != 0 and last[-1] == "FAILED: tests", (code, last))
    code, last, _ = run("--full", FAILING_TESTS="build-asan")
    check(code != 0 and last[-1] == f"FAILED: {SANITIZED[0]}", (code, last))


def skips_are_named():
    gpu, nvrtc = "skipped: there is no GPU", "skipped: dtc: error: NVRTC, the compiler of CUDA C++, is not installed: libnvrtc.so.13 or .12 comes with …"
    code, last, _ = run(skips=(gpu, nvrtc, gpu))
    check(code == 0 and last[1:] == [nvrtc, "    unit.skipped_1", gpu, "    unit.skipped_0 unit.skipped_2"], (code, last))
    for reason in ("skipped: there is no c++", "skipped: numpy is not installed", "nothing that says why"):
        code, last, _ = run(skips=(gpu, reason))
        check(code != 0 and any(line.startswith("SKIPPED, and should not be: ") for line in last) and "FAILED: " in last[-1], (code, last))


def a_bare_debian_that_cannot_be_made_is_told():
    code, last, _ = run("--full", BARE_ENDS="77", BARE_SAYS="that needs root")
    check(code == 0 and last[-1].endswith("skipped  on a bare Debian: that needs root"), (code, last))
    code, last, _ = run("--full", BARE_ENDS="1")
    check(code != 0 and last[-1] == "FAILED: on a bare Debian", (code, last))


all_is_well()
a_build_that_fails_is_not_tested()
a_test_that_fails_is_told()
skips_are_named()
a_bare_debian_that_cannot_be_made_is_told()
print("ok")
