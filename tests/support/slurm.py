"""slurm: Slurm's daemons on machines that are namespaces: munge and the controller on the first one, slurmd on each. They end with the namespaces."""
import os
import pathlib
import subprocess
import time

CONFIGURATION = """
ClusterName=here
SlurmctldHost={controller}
SlurmUser=root
AuthInfo=socket={folder}/run/munge,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SlurmdParameters=config_overrides
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE
"""


class Slurm:
    """`machines`: addresses by name. `on(machine, command, **options)` starts a command there and returns its Popen. The folder is a new one."""

    def __init__(self, folder, machines, on):
        self.folder, self.on, self.machines = pathlib.Path(folder), on, machines
        for path in (self.folder, *(self.folder / name for name in ("run", "state", "spool"))):
            path.mkdir()
            path.chmod(0o755)  # munge trusts no folder that others may write into
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o600)
        first, address = next(iter(machines.items()))
        nodes = "".join(f"NodeName={name} NodeAddr={address} CPUs=4\n" for name, address in machines.items())
        (self.folder / "slurm.conf").write_text(nodes + CONFIGURATION.format(controller=f"{first}({address})", folder=self.folder))
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")

    def start(self, machine, *command):
        with (self.folder / f"{command[0]}-{machine}.log").open("w") as log:
            return self.on(machine, [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def starts(self, seconds=40):
        """Whether all nodes came to be idle."""
        first, end, at = next(iter(self.machines)), time.monotonic() + seconds, self.folder
        daemons = [self.start(first, "munged", "--foreground", "--force", f"--key-file={at}/munge.key", f"--socket={at}/run/munge",
                              f"--pid-file={at}/munged.pid", f"--log-file={at}/munge.log", f"--seed-file={at}/munge.seed")]
        while not (self.folder / "run/munge").exists() and daemons[0].poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        daemons += [self.start(first, "slurmctld", "-D"), *(self.start(name, "slurmd", "-D") for name in self.machines)]
        asked = ["sinfo", "-h", "-o", "%t:%D"]
        while time.monotonic() < end and all(daemon.poll() is None for daemon in daemons):
            if self.on(first, asked, stdout=subprocess.PIPE, text=True).communicate()[0].strip() == f"idle:{len(self.machines)}":
                return True
            time.sleep(0.2)
        return False

    def logs(self):
        return "\n".join(f"---- {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))
