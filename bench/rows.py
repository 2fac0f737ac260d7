"""rows: what crosses processes, and what one of them has in memory, where tables are shared out by rows (`dtrun train --rows`): a table of 10 M rows of
16 floats over two processes, 1,024 examples a step that name four rows each; with sgd, and with adam by --lazy-rows. Beside it one process with all of
the table, and a table of 10,000 rows, of which both ways must leave the same bytes.

    python3 bench/rows.py [--steps N]

Bytes are those of all messages of a step that carry parts of the table, its gradient or the names of rows, from --timeline.
"""
import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile

import numpy

import side_by_side as bench

ROWS, SMALL, WIDTH = 10_000_000, 10_000, 16
REPLICAS, BATCH, NAMED = 2, 512, 4
MPIRUN = [shutil.which("mpirun.openmpi") or "mpirun", "-n", 2, "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader"]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Runs a command, and says its peak memory where the caller finds it.
MEASURED = "import os,resource,subprocess,sys; code=subprocess.call(sys.argv[2:]); " \
           "open(sys.argv[1]+str(os.getpid()),'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)); sys.exit(code)"


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


def train(folder, program, data, steps, *flags, launcher=()):
    """What it said, and the peak memory of each process, in MiB."""
    out = pathlib.Path(tempfile.mkdtemp(dir=folder))
    done = bench.run([*launcher, sys.executable, "-c", MEASURED, out / "peak", bench.ROOT / "build/dtrun", "train", program, "--data", data, "--replicas",
                      REPLICAS, "--devices", "cpu:1x1", "--max-steps", steps, "--log-format", "json", *flags], AS_ROOT)
    epoch = next(event for event in map(json.loads, done.output.splitlines()) if event["event"] == "epoch")
    return epoch, [int(path.read_text()) / 1024 for path in sorted(out.glob("peak*"))]


def moved(path, steps):
    """Bytes of a step, of both processes together: what one sends the other receives, and both are alike."""
    spans = json.loads(path.read_text())
    spans = spans["traceEvents"] if isinstance(spans, dict) else spans
    return 2 * sum(span.get("args", {}).get("bytes", 0) for span in spans if "rows of tables" in json.dumps(span)) / steps


def two_processes(folder, name, program, data, steps, *flags):
    timeline = folder / f"{name}.json"
    epoch, peaks = train(folder, program, data, steps, *flags, "--timeline", timeline, launcher=MPIRUN)
    n, table = moved(timeline, steps), ROWS * WIDTH * 4
    print(f"{name:28} {n / 1024:8.1f} KiB a step, {100 * n / table:.4f} % of the table's {table / 2**20:.0f} MiB; at most {max(peaks):.0f} MiB a process; "
          f"{1000 * epoch['seconds_per_step']:.2f} ms a step", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = pathlib.Path(name)
        data = make_data(folder / "data", ROWS, steps)
        sgd = compiled(folder, "sgd")
        epoch, peaks = train(folder, sgd, data, min(steps, 5))
        print(f"{'one process, all of it':28} {'':84} {peaks[0]:.0f} MiB; {1000 * epoch['seconds_per_step']:.2f} ms a step", flush=True)
        two_processes(folder, "two processes, sgd", sgd, data, steps, "--rows")
        two_processes(folder, "two processes, adam, lazily", compiled(folder, "adam", "-Dadaptive=true"), data, steps, "--lazy-rows")
        small = compiled(folder, "small", f"-Drows={SMALL * 10}")
        data = make_data(folder / "small", SMALL * 10, steps)
        for way, launcher, flags in (("whole", (), ()), ("rows", MPIRUN, ("--rows",))):
            train(folder, small, data, steps, *flags, "--checkpoint-dir", folder / way, launcher=launcher)
        files = [(folder / way / f"step-{steps}" / "model.safetensors").read_bytes() for way in ("whole", "rows")]
        print(f"a table of {SMALL * 10:,} rows, sgd: {'the same bytes' if files[0] == files[1] else 'OTHER BYTES'} by rows on two processes as with all of it on one")
        sys.exit(files[0] != files[1])


if __name__ == "__main__":
    main()
