"""scripts/package.sh: each set of packages, and the archive, on a bare Debian 12 of its own, which has nothing but what they ask for, trains the
perceptron: by dtrun, by an application that is built there with what dt-dev brings, and from Python."""
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
                    "c++ -std=c++17 tests/support/embed.cpp -o /tmp/cpp $(pkg-config --cflags --libs dtc dtrt) && /tmp/cpp && "
                    "sed -n '/^```c program$/,/^```$/{/^```/d;p}' docs/c-api.md >/tmp/page.c && cc -std=c17 /tmp/page.c -o /tmp/page -ldtrt && cd /tmp && "
                    "dtc compile /usr/share/dt/examples/perceptron.dt -o perceptron.dtx && ./page", "label 9 is answered 9"),
    ("portable archive", f"{APT} xz-utils && tar -xJf build/packages/dt-*.tar.xz -C /opt && /opt/dt-*/bin/dtrun {TRAIN}", "done: 50 steps"),
    ("Python", f"{APT} ./build/packages/python3-dt_*.deb && python3 examples/python/train.py build/packages/data", "of the first 1,000 images"),
)


def main():
    listed = subprocess.run([SOURCE / "scripts/package.sh"], capture_output=True, text=True, cwd=SOURCE)
    print(listed.stdout, listed.stderr, flush=True)
    assert listed.returncode == 0
    assert sum(name in listed.stdout for name in ("dt-runtime_", "dt-compiler_", "dt-dev_", "python3-dt_", ".tar.xz")) == 5
    (PACKAGES / "data").mkdir()
    for file in DATA.iterdir():
        shutil.copy(file, PACKAGES / "data")
    subprocess.run(["dtc", "compile", SOURCE / "examples/perceptron.dt", "-o", PACKAGES / "m.dtx"], check=True)
    for what, command, wanted in TRIALS:
        done = subprocess.run([SOURCE / "scripts/bare.sh", "--with", "build/packages", command], capture_output=True, text=True, cwd=SOURCE)
        if done.returncode == 77:
            print(f"skipped: {done.stdout.strip()}")
            return 77
        assert done.returncode == 0 and wanted in done.stdout, f"{what}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        print(f"{what}: {wanted}", flush=True)
    return 0


sys.exit(main())
