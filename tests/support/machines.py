"""machines: four machines on this one, for what happens between machines: each is a network namespace and a host name, on a bridge by a link of its own,
and a folder OWN, which is another one on each.

What uses this runs in namespaces of its own (machines.sh), with /run and TMPDIR on a file system of their own: names are free there, each
process is one that it started, and all of it is gone when it ends.
"""
import contextlib
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import mpi
from launched import STATE

SUPPORT = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/support"
SSH = SUPPORT / "machine_ssh.sh"
NAMES = ["m0", "m1", "m2", "m3"]
FOLDERS = pathlib.Path(os.environ["MACHINES"])  # of all machines, by name
OWN = FOLDERS / "own"


def ip(*arguments):
    subprocess.run(["ip", *map(str, arguments)], check=True)


def build():
    """The machines, not connected yet."""
    hosts = pathlib.Path(tempfile.mkdtemp()) / "hosts"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"10.0.0.{i + 1} {name}\n" for i, name in enumerate(NAMES)))
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    ip("link", "add", "bridge", "type", "bridge")
    ip("link", "set", "bridge", "up")
    for name in NAMES:
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")


def connect(i):
    """Gives the ends of a link that is there their places: link-i on the bridge, eth0 in the machine."""
    ip("link", "set", f"end-{i}", "netns", NAMES[i], "name", "eth0")
    ip("-n", NAMES[i], "address", "add", f"10.0.0.{i + 1}/24", "dev", "eth0")
    ip("-n", NAMES[i], "link", "set", "eth0", "up")
    ip("link", "set", f"link-{i}", "master", "bridge", "up")


@contextlib.contextmanager
def cables():
    for i in range(len(NAMES)):
        ip("link", "add", f"link-{i}", "type", "veth", "peer", "name", f"end-{i}")
        connect(i)
    yield
    for i in range(len(NAMES)):
        ip("link", "delete", f"link-{i}")


@contextlib.contextmanager
def wires(delay_ms=0, loss=0.0):
    """Links that are slow, and lose packets: from machine to machine it is twice this delay."""
    ends = [name for i in range(len(NAMES)) for name in (f"link-{i}", f"end-{i}")]
    with subprocess.Popen([sys.executable, SUPPORT / "wire.py", str(delay_ms), str(loss), *ends], stdout=subprocess.PIPE, text=True) as wire:
        assert wire.stdout.readline() == "ready\n", "there is no wire"
        for i in range(len(NAMES)):
            connect(i)
        yield
        wire.kill()


def limit(i, rate):
    """At most this many bits a second, such as "1gbit", from and to a machine."""
    bucket = ["root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms"]
    subprocess.run(["tc", "qdisc", "add", "dev", f"link-{i}", *bucket], check=True)
    subprocess.run(["tc", "-n", NAMES[i], "qdisc", "add", "dev", "eth0", *bucket], check=True)


def cut(i):
    ip("link", "set", f"link-{i}", "down")


def mend(i):
    """Returns when packets pass again: the kernel may take a second over it."""
    ip("link", "set", f"link-{i}", "up")
    other = NAMES[0 if i > 0 else 1]
    knock = ["ip", "netns", "exec", NAMES[i], "bash", "-c", f"timeout 1 bash -c '</dev/tcp/{other}/9' 2>&1"]  # nobody listens there: a refusal comes back
    assert wait_until(lambda: "refused" in subprocess.run(knock, stdout=subprocess.PIPE, text=True).stdout, 10), f"{NAMES[i]} reaches nobody"


def running(program=None):
    """Process ids of what runs here beside this process, of one program or of any; a process that waits to be reaped has ended."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, rest = path.read_text().split(" (", 1)
            name, rest = rest.rsplit(") ", 1)
            if int(pid) != os.getpid() and rest[0] != "Z" and program in (None, name):
                found.append(int(pid))
    return found


NETWORK = [part for layer in ("btl", "oob") for part in ("--mca", f"{layer}_tcp_if_include", "eth0")]
OPTIONS = {
    "openmpi": ["--bind-to", "none", "--mca", "plm_rsh_agent", SSH, "--mca", "pml", "ob1", "--mca", "btl", "self,tcp", *NETWORK],
    "mpich": ["-launcher", "ssh", "-launcher-exec", SSH, "-iface", "eth0"],
}


class Started:
    """A command that runs on one of the machines and starts processes on others; all of them are ended with the `with` statement."""

    def __init__(self, machine, line, flavour="openmpi", **settings):
        self.before = set(running())
        with (self.folder / "output").open("w") as output:
            self.process = subprocess.Popen([SSH, machine, shlex.join(map(str, line))], env=mpi.environment_of(flavour, **settings),
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """mpirun does not come back when it has lost a machine, nor does what it left there."""
        for pid in set(running()) - self.before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        assert wait_until(lambda: not set(running()) - self.before, 5), "what was killed does not end"

    def output(self):
        """What a person sees who has started it."""
        return (self.folder / "output").read_text()

    def wait(self, seconds):
        """Its exit status; None: it has not ended in time."""
        wait_until(lambda: self.process.poll() is not None, seconds)
        return self.process.returncode


class Mpirun(Started):
    """A program on some of the machines, one process on each, in this order; mpirun runs on the first."""

    def __init__(self, machines, command, **settings):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        names = [NAMES[i] for i in machines]
        hosts = self.folder / "hosts"
        hosts.write_text("".join(f"{name} slots=1\n" for name in names))
        super().__init__(names[0], ["mpirun.openmpi", "-n", len(names), "--hostfile", hosts, *OPTIONS["openmpi"], "--output-filename", self.folder, *command],
                         **settings)

    def said_by(self, process):
        """What a process wrote, as its own machine has it."""
        return "".join(path.read_text() for path in sorted(self.folder.glob(f"*/rank.{process}/std*")))


class Launch(Started):
    """dtrun launch of a command of dtrun on the first machine, with one process on each."""

    def __init__(self, flags, command, flavour="openmpi"):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        line = ["dtrun", "launch", "--hosts", ",".join(NAMES), *flags, "--mpirun", f"mpirun.{flavour}", "--mpirun-options",
                " ".join(map(str, OPTIONS[flavour])), *command]
        super().__init__(NAMES[0], line, flavour, TMPDIR=str(OWN))

    def state(self, machine):
        """Of its process, as it lies there: its pid, and what it does; None: there is none."""
        found = [STATE.match(path.read_text()) for path in (FOLDERS / NAMES[machine]).glob(f"dtrun-launch-*/process-{machine}")]
        return (int(found[0][4]), found[0][10]) if found and found[0] else None


def wait_until(condition, seconds):
    """Whether the condition came to hold in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
