"""scripts/image.sh: a root file system in which one process trains; two, and workers of a parameter server, end with its bytes. The Dockerfile installs
and copies the same, and its commands run on a bare Debian."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def the_dockerfile_takes_the_same_steps():
    script, dockerfile = ((SOURCE / name).read_text() for name in ("scripts/image.sh", "Dockerfile"))
    packages = {word for line in re.findall(r"^install (.*)", script, re.MULTILINE) for word in line.split()}
    installed = re.search(r"--no-install-recommends \\\n +(.*?) && \\\n", dockerfile)[1].split()
    check(len(packages) >= 5 and packages == set(installed), f"scripts/image.sh installs {packages}, the Dockerfile {installed}")
    for pattern in (r"(printf '[^']*') >\S*?(/etc/ssh/\S*/mpi\.conf)", r"/usr/local/(?:bin|lib|share/dt)"):
        one, other = (set(re.findall(pattern, text)) for text in (script.replace("env -i PATH=/usr/local/bin", "").replace('"', ""), dockerfile))
        check(one and one == other, f"scripts/image.sh does {one}, the Dockerfile {other}")


def the_dockerfile_runs():
    """Its RUN commands, each on a Debian that has nothing but what debootstrap gives it."""
    text = (SOURCE / "Dockerfile").read_text().replace("\\\n", " ")
    build, install = re.findall(r"^RUN (.*)$", text, re.MULTILINE)
    for command, then in ((build, "build/dtrun --help >/dev/null && test -s build/libdt_mpi_openmpi.so"),
                          (install, "mpirun --version >/dev/null && test -s /etc/ssh/ssh_config.d/mpi.conf && test -x /usr/sbin/sshd")):
        done = subprocess.run([SOURCE / "scripts/bare.sh", f"set -e; {command}; {then}"], capture_output=True, text=True)
        if done.returncode == 77:
            print(f"skipped: there is no bare Debian: {done.stdout.strip()}")
            sys.exit(77)
        check(done.returncode == 0, f"RUN {command}\nexit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    print("the Dockerfile's commands run on a bare Debian", flush=True)


def the_image_trains():
    with tempfile.TemporaryDirectory(prefix="dt-image-") as folder:
        done = subprocess.run([SOURCE / "scripts/image.sh", folder], capture_output=True, text=True)
        if done.returncode == 77:
            print(f"skipped: an image cannot be made: {done.stderr.strip()}")
            sys.exit(77)
        check(done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
        print(done.stdout)
        with_mpi, without = map(int, re.search(r": (\d+) MB compressed, (\d+) MB without MPI and ZeroMQ$", done.stdout.strip()).groups())
        [archive] = pathlib.Path(folder).glob("*.tar.gz")
        check(archive.stat().st_size // 1000000 == with_mpi > without > 10, done.stdout)
        check(done.stdout.count("done: 20 steps") == 3, done.stdout)
        names = subprocess.run(["tar", "-tzf", archive], capture_output=True, text=True, check=True).stdout.split()
        check("./usr/local/bin/dtrun" in names and "./usr/local/lib/libdt_mpi_openmpi.so" in names, "dtrun or its plugin is not in the image")
        check(not [name for name in names if re.match(r"\./(mnt/.|complete|etc/ssh/ssh_host)", name)], "there is in the image what does not belong there")


the_dockerfile_takes_the_same_steps()
the_dockerfile_runs()
the_image_trains()
print("ok")
