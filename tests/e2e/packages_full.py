"""scripts/package.sh: lintian finds nothing in the packages, and each set of them, and the archive, on a bare Debian 12 of its own, which has nothing but
what they ask for, trains the perceptron: by dtrun, by an application that is built there with what dt-dev brings, and from Python."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
PACKAGES = SOURCE / "build/packages"
APT = "apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends"
TRAIN = "train examples/perceptron.dt --data build/packages/data --max-steps 50"
NAMES = ("dt-runtime", "dt-compiler", "libdtrt0", "libdtc0", "dt-dev", "python3-dt")


def files(*names):
    return " ".join(f"./build/packages/{name}_*.deb" for name in names)


TRIALS = (  # what is installed or unpacked there, what is run, and what it must say
    ("compiler and runtime", f"{APT} device-tree-compiler {files('dt-runtime', 'dt-compiler')} && dtrun {TRAIN} && dt-dtc summary examples/gpt.dt && "
                             "dtc --version | grep 'Version: DTC' && PATH=/usr/lib/dt/bin:$PATH dtc compile examples/perceptron.dt -o /tmp/m.dtx && "
                             "bash -c '. /usr/share/bash-completion/completions/dt-dtc && complete -p dt-dtc'", "done: 50 steps"),
    ("runtime alone", f"{APT} {files('dt-runtime')} && dtrun train build/packages/m.dtx --data build/packages/data --max-steps 50", "done: 50 steps"),
    ("two processes", f"{APT} openmpi-bin {files('dt-runtime')} && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2 "
                      "dtrun train build/packages/m.dtx --data build/packages/data --replicas 2 --devices cpu:1 --max-steps 50", "done: 50 steps"),
    ("development", f"{APT} {files('dt-dev', 'libdtc0', 'libdtrt0', 'dt-compiler')} gcc g++ libc6-dev pkg-config man-db && "
                    "cc -std=c17 tests/support/embed.c -o /tmp/c $(pkg-config --cflags --libs dtc dtrt) && /tmp/c && "
                    "c++ -std=c++17 tests/support/embed.cpp -o /tmp/cpp $(pkg-config --cflags --libs dtc dtrt) && /tmp/cpp && "
                    "sed -n '/^```c program$/,/^```$/{/^```/d;p}' docs/c-api.md >/tmp/page.c && cc -std=c17 /tmp/page.c -o /tmp/page -ldtrt && cd /tmp && "
                    "dt-dtc compile /usr/share/doc/dt-dev/examples/perceptron.dt -o perceptron.dtx && ./page", "label 9 is answered 9"),
    ("portable archive", f"{APT} xz-utils && tar -xJf build/packages/dt-*.tar.xz -C /opt && /opt/dt-*/bin/dtrun {TRAIN}", "done: 50 steps"),
    ("Python", f"{APT} {files('python3-dt')} && python3 examples/python/train.py build/packages/data", "of the first 1,000 images"),
)


def policy():
    """What lintian says of the packages."""
    subprocess.run([SOURCE / "scripts/install.sh", "lintian"], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["lintian", "--tag-display-limit", "0", *PACKAGES.glob("*.deb")], capture_output=True, text=True)
    found = re.findall(r"^[EWIP]: .*", done.stdout, re.MULTILINE)
    assert done.returncode == 0 and not found, done.stdout + done.stderr


def main():
    listed = subprocess.run([SOURCE / "scripts/package.sh"], capture_output=True, text=True, cwd=SOURCE)
    print(listed.stdout, listed.stderr, flush=True)
    assert listed.returncode == 0 and all(f"{name}_" in listed.stdout for name in NAMES) and ".tar.xz" in listed.stdout
    policy()
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
