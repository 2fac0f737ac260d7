"""rows: what crosses between processes, and what each has in memory, where tables are shared out by rows: a table of 10 M rows of 16 floats, 1,024 examples a
step that name four rows each; with sgd and `--rows`, and with adam and `--lazy-rows`. By two processes that mpirun starts, and by two parameter servers with
two workers; beside them one process with all of the table, and a table of 100,000 rows, of which all must leave the same bytes.

    rows.py [--steps N]

Bytes are those of all exchanges of a step, whoever sends them, from --timeline. Memory is each process's peak (VmHWM, looked at every 5 ms) in a training that
writes a checkpoint and another that goes on from it. The exit status says whether the bars hold.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

import side_by_side as bench

ROWS, SMALL, WIDTH = 10_000_000, 100_000, 16
REPLICAS, BATCH, NAMED = 2, 512, 4
MOST_PERCENT, MOST_MIB = 0.2, 300  # of the table's bytes a step; of a worker
PROCESSES = bench.TWO_PROCESSES, ()
SERVERS = (), ("--local-servers", 2, "--workers", 2, "--staleness", 0)
ALONE = (), ()


def compiled(folder, name, *flags):
    bench.run([bench.ROOT / "build/dtc", "compile", bench.ROOT / "bench/programs/visits.dt", "-o", folder / f"{name}.dtx", *flags])
    return folder / f"{name}.dtx"


def make_data(folder, rows, steps):
    folder.mkdir()
    random = numpy.random.default_rng(1)
    n = steps * REPLICAS * BATCH
    numpy.save(folder / "item.npy", random.integers(0, rows, (n, NAMED), dtype=numpy.int32))
    numpy.save(folder / "rating.npy", random.normal(size=n).astype(numpy.float32))
    return folder


def look_at(pid, peaks):
    """Notes the peak memory of a process and of all that it has started, in MiB, by what they do."""
    try:
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            look_at(child, peaks)
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        peak = next(line.split()[1] for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return  # it has ended
    if words[0].endswith("dtrun") and words[1] in ("train", "ps-server", "ps-worker"):
        peaks[words[1]] = max(peaks[words[1]], int(peak) / 1024)


def train(program, data, steps, layout, *flags):
    """The peak memory of those who train, of servers, of workers."""
    launcher, layout_flags = layout
    command = [*launcher, bench.ROOT / "build/dtrun", "train", program, "--data", data, "--replicas", REPLICAS, "--devices", "cpu:1x1", "--max-steps", steps,
               *layout_flags, *flags]
    peaks = collections.defaultdict(float)
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=errors, env=dict(os.environ, **bench.AS_ROOT))
        while process.poll() is None:
            look_at(process.pid, peaks)
            time.sleep(0.005)
        errors.seek(0)
        if process.returncode != 0:
            sys.exit(f"{command}: exit status {process.returncode}\n{errors.read()}")
    return peaks


def sent(timeline):
    """Bytes of all exchanges, as their senders count them."""
    events = json.loads(timeline.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    return sum(event["args"].get("bytes", 0) for event in events if event["ph"] == "b" and event.get("cat") == "exchange")


def shared_out(folder, name, program, data, steps, layout, flag):
    """Prints a line; whether the bars hold."""
    train(program, data, steps, layout, flag, "--timeline", folder / "timeline.json", "--timeline-steps", 10 * steps)
    n = sent(folder / "timeline.json") / steps
    percent = 100 * n / (ROWS * WIDTH * 4)
    checkpoints = folder / "checkpoints"
    peaks = train(program, data, steps // 2, layout, flag, "--checkpoint-dir", checkpoints)
    more = train(program, data, steps, layout, flag, "--checkpoint-dir", checkpoints, "--resume")
    shutil.rmtree(checkpoints)
    mib = {role: max(peaks[role], more[role]) for role in peaks}
    roles = {"ps-worker": "a worker", "ps-server": "a server", "train": "a process"}
    memory = ", ".join(f"{mib[role]:.0f} MiB {roles[role]}" for role in roles if role in mib and (role != "train" or "ps-server" not in mib))
    print(f"{name:34} {n / 1024:6.1f} KiB a step, {percent:.4f} % of the table's {ROWS * WIDTH * 4 / 2**20:.0f} MiB; at most {memory}", flush=True)
    return percent <= MOST_PERCENT and mib.get("ps-worker", 0) < MOST_MIB


def same_bytes(folder, steps):
    """Whether all layouts leave the same of a small table."""
    program, data = compiled(folder, "small", f"-Drows={SMALL}"), make_data(folder / "small", SMALL, steps)
    files = []
    for layout, flags in ((ALONE, ()), (PROCESSES, ("--rows",)), (SERVERS, ("--rows",))):
        checkpoints = folder / f"small-{len(files)}"
        train(program, data, steps, layout, *flags, "--checkpoint-dir", checkpoints)
        files.append((checkpoints / f"step-{steps}" / "model.safetensors").read_bytes())
    same = files.count(files[0]) == len(files)
    print(f"a table of {SMALL:,} rows, sgd: {'the same bytes' if same else 'OTHER BYTES'} by rows, on two processes and on two servers with two workers, "
          "as with all of it in one")
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = pathlib.Path(name)
        data = make_data(folder / "data", ROWS, steps)
        sgd, adam = compiled(folder, "sgd"), compiled(folder, "adam", "-Dadaptive=true")
        print(f"{'one process, all of it':34} {'':61} {train(sgd, data, min(steps, 5), ALONE)['train']:.0f} MiB", flush=True)
        hold = [shared_out(folder, f"{who}, {how}", program, data, steps, layout, flag)
                for who, layout in (("two processes", PROCESSES), ("two servers, two workers", SERVERS))
                for how, program, flag in (("sgd", sgd, "--rows"), ("adam", adam, "--lazy-rows"))]
        hold.append(same_bytes(folder, steps))
    print(f"at most {MOST_PERCENT} % a step, a worker under {MOST_MIB} MiB, the same bytes: {'yes' if all(hold) else 'NO'}")
    sys.exit(not all(hold))


if __name__ == "__main__":
    main()
