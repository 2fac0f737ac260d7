"""wire: two processes of one core each, on machines with 1 Gbit/s between them: network namespaces of this one, each on a link that carries no more.

    44 MB        what processes of that many bytes of gradients exchange: by our rounds, beside the MPI_Allreduce of the same MPI
    gpt.dt       a step of training at N rows a process, beside the longer of its parts: computing, as each process does it where there is no other; and
                 exchanging, as it takes where each process computes one row; and what of the exchange the step waits for
    … at once    the same, compiled with -O no-microbatches: what crosses begins during the last microbatches, and a replica is only one
    … in shares  of width 512 with --shard-parameters, beside the same step without: of the time in which something is under way, what the step waits for

Times of steps are medians of a run of `dtrun bench` on made-up input; the parts are measured right before the step. Needs root.
"""
import itertools
import json
import os
import re
import statistics
import subprocess
import sys

import side_by_side as bench

MACHINES = bench.ROOT / "tests/support/machines.sh"
if "MACHINES" not in os.environ:
    os.environ["DT_PYTHON"] = sys.executable
    os.execv(MACHINES, [str(MACHINES), __file__, *sys.argv[1:]])

sys.path.insert(0, str(bench.ROOT / "tests/support"))
import machines  # noqa: E402

PROGRAMS = {"gpt.dt": bench.ROOT / "build/bench_gpt.dtx", "gpt.dt, a replica at once": bench.ROOT / "build/bench_gpt_whole.dtx"}
ROWS = (64, 32, 16, 4)  # a process
WIDE, WIDE_REPLICA = bench.ROOT / "build/bench_gpt_wide.dtx", 8
REPLICA = 32  # rows, at most
STEPS = 10


def output_of(command):
    """Of two processes, one a machine."""
    with machines.Mpirun([0, 1], command) as run:
        if run.wait(600) != 0:
            sys.exit(f"{command}: {run.output()}")
        return run.output()


def benched(program, rows, n_processes, *flags):
    replicas = n_processes * -(-rows // (WIDE_REPLICA if program == WIDE else REPLICA))
    return ["dtrun", "bench", program, "--replicas", replicas, "--global-batch", rows * n_processes, "--devices", "cpu:1x1", "--steps", STEPS, "--json", *flags]


def figures(output):
    return json.loads(output[output.index("{"):output.rindex("}") + 1])


def computing(program, rows):
    """ms: of two processes that know nothing of each other, the slower one."""
    both = [subprocess.Popen(list(map(str, benched(program, rows, 1))), stdout=subprocess.PIPE, text=True) for _ in range(2)]
    return max(1000 * figures(one.communicate()[0])["median"] for one in both)


def step(program, rows, *flags):
    """ms: a step; of that, something is under way between processes; and is waited for."""
    found = figures(output_of(benched(program, rows, 2, *flags)))
    return 1000 * found["median"], 1000 * found["exchanging"], 1000 * found["exposed"]


def exchange():
    """ms: ours, the engine's; and the ratio."""
    said = output_of([bench.ROOT / "build/processes_exchange_openmpi", 44_000_000, 256 << 10, 5])
    return map(float, re.search(r"direct ([\d.]+) ms .*MPI_Allreduce ([\d.]+) ms .*: ([\d.]+)", said).groups())


def main():
    n = bench.n_pairs(__doc__)
    machines.build()
    with machines.cables():
        for i in (0, 1):
            machines.limit(i, "1gbit")
        bench.head(f"1 Gbit/s; {bench.counted(n, 'run')}", "ours, ms", "beside, ms", "ratio", "waited for, ms")
        runs = [tuple(exchange()) for _ in range(n)]
        ours, theirs, ratio = map(statistics.median, zip(*runs))
        bench.row("44 MB, beside MPI_Allreduce", f"{ours:.0f}", f"{theirs:.0f}", f"{ratio:.2f}", "")
        for (name, program), rows in itertools.product(PROGRAMS.items(), ROWS):
            runs = []
            for _ in range(n):
                longer = max(computing(program, rows), step(program, 1)[1])
                whole, _, waited = step(program, rows)
                runs.append((whole, longer, whole / longer, waited))
            whole, longer, ratio, waited = map(statistics.median, zip(*runs))
            what = f"{name}, {rows} rows a process, beside the longer of its parts"
            bench.row(what, f"{whole:.0f}", f"{longer:.0f}", f"{ratio:.2f}", f"{waited:.0f}")
        for rows in (16, 8):
            runs = [(*step(WIDE, rows, "--shard-parameters"), step(WIDE, rows)[0]) for _ in range(n)]
            whole, under_way, waited, plain = map(statistics.median, zip(*runs))
            what = f"gpt.dt, width 512, {rows} rows a process, in shares, beside not; {under_way:.0f} ms under way"
            bench.row(what, f"{whole:.0f}", f"{plain:.0f}", f"{whole / plain:.2f}", f"{waited:.0f}")


main()
