"""scripts/package.sh: each package and the archive are tried on a bare Debian 12, which has nothing but what the packages ask for: each trains the
perceptron, and a program is built with what dt-dev brings."""
import os
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
PACKAGES = SOURCE / "build/packages"
APT = "apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends"
TRAIN = "train examples/perceptron.dt --data build/packages/data --max-steps 50"

TRIALS = (  # what is installed or unpacked there, what is run, and what it must say
    ("compiler and runtime", f"{APT} ./build/packages/dt-runtime_*.deb ./build/packages/dt-compiler_*.deb && dtrun {TRAIN} && dtc summary examples/gpt.dt",
     "done: 50 steps"),
    ("runtime alone", f"{APT} ./build/packages/dt-runtime_*.deb && dtrun train build/packages/m.dtx --data build/packages/data --max-steps 50",
     "done: 50 steps"),
    ("development", f"{APT} ./build/packages/dt-*.deb gcc g++ libc6-dev pkg-config && "
                    "cc -std=c17 tests/support/embed.c -o /tmp/c $(pkg-config --cflags --libs dtc dtrt) && /tmp/c && "
                    "c++ -std=c++17 tests/support/embed.cpp -o /tmp/cpp $(pkg-config --cflags --libs dtc dtrt) && /tmp/cpp", "all of it holds"),
    ("portable archive", f"{APT} xz-utils && tar -xJf build/packages/dt-*.tar.xz -C /opt && /opt/dt-*/bin/dtrun {TRAIN}", "done: 50 steps"),
    ("Python", f"{APT} ./build/packages/python3-dt_*.deb && python3 -c 'import dt; print(dt.compile(\"examples/perceptron.dt\"))' && echo it compiles",
     "it compiles"),
)


def main():
    listed = subprocess.run([SOURCE / "scripts/package.sh"], capture_output=True, text=True, cwd=SOURCE)
    print(listed.stdout, listed.stderr, flush=True)
    assert listed.returncode == 0
    assert sum(name in listed.stdout for name in ("dt-runtime_", "dt-compiler_", "dt-dev_", ".tar.xz")) == 4
    (PACKAGES / "data").mkdir()
    for file in DATA.iterdir():
        shutil.copy(file, PACKAGES / "data")
    subprocess.run(["dtc", "compile", SOURCE / "examples/perceptron.dt", "-o", PACKAGES / "m.dtx"], check=True)
    for what, command, wanted in TRIALS:
        if what == "Python" and not list(PACKAGES.glob("python3-dt_*")):
            continue
        done = subprocess.run([SOURCE / "scripts/bare.sh", "--with", "build/packages", command], capture_output=True, text=True, cwd=SOURCE)
        if done.returncode == 77:
            print(f"skipped: {done.stdout.strip()}")
            return 77
        assert done.returncode == 0 and wanted in done.stdout, f"{what}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        print(f"{what}: {wanted}", flush=True)
    return 0


sys.exit(main())
