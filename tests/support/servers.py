"""servers: trainings with parameter servers and workers on this machine, as `dtrun train --local-servers` starts them."""
import json
import pathlib
import tempfile

import layouts
from training import FOLDER, check, command, subprocess


def new_folder():
    return pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "ck"


def train(case, replicas, n_servers, n_workers, folder, *flags, seconds=120, expect=0):
    """The events of a training into the folder."""
    call = command("train", case.artifact, *case.flags(replicas), "--local-servers", n_servers, "--workers", n_workers, "--devices", "cpu:1x1", "--seed", 3,
                   "--checkpoint-dir", folder, *flags)
    done = subprocess.run(call, capture_output=True, text=True, timeout=seconds)
    check(done.returncode == expect, f"{case.name}, {n_servers} servers, {n_workers} workers {flags}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def agrees(case, wanted, replicas, n_servers, n_workers):
    """Whether weights, slots, and what is reported of both epochs and their evaluations, are those of one process."""
    folder = new_folder()
    events = train(case, replicas, n_servers, n_workers, folder, "--epochs", 2)
    of_one = f"{case.name}, V={replicas}: {n_servers} servers and {n_workers} workers give other {{}} than one process"
    check(layouts.left_by(folder) == wanted[0], of_one.format("weights"))
    check(layouts.said(events) == wanted[1], of_one.format(f"reports: {layouts.said(events)} {wanted[1]}"))
    print(f"{case.name}, V={replicas}: {n_servers} servers and {n_workers} workers agree with one process", flush=True)
