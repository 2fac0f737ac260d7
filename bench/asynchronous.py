"""asynchronous: parameter servers whose workers wait for nobody, beside those whose workers wait for each other (`--staleness 0 --replicas 3`), with the same
three workers and two servers on the same cores: the CNN at 64 examples a batch. A worker is slowed five times: stopped for 80 ms and let run for 20, in turns.

    asynchronous.py [--pairs N]          examples a second, with none of the workers slowed and with one
    asynchronous.py --picture FILE       the loss over time in each of these four trainings, as an SVG
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time

import side_by_side as bench

WORKERS, SERVERS, ROWS = 3, 2, 64
STOPPED_SECONDS, RUNNING_SECONDS = 0.08, 0.02
EXAMPLES_A_POINT = 30 * ROWS
TIMED_SECONDS, DRAWN_SECONDS = 30, 60  # of each training, from its first point on
KINDS = {"asynchronous": False, "synchronous": True}  # is it?
CASES = (("three equal workers", False), ("one of three workers slowed 5 times", True))


# ---- trainings ----

def workers_of(process):
    """Their pids."""
    pids = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in pids if b"\0ps-worker\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]


def slow_down(process, is_over):
    """One of its workers."""
    while len(workers := workers_of(process)) < WORKERS:
        time.sleep(0.01)
    try:
        while not is_over.wait(RUNNING_SECONDS):
            os.kill(workers[0], signal.SIGSTOP)
            time.sleep(STOPPED_SECONDS)
            os.kill(workers[0], signal.SIGCONT)
    except ProcessLookupError:
        process.kill()  # a training without it is another one


def train(is_synchronous, is_slowed, seconds):
    """[(seconds since the start, examples, loss of the last ones)] of a training that is ended after so many seconds."""
    rows = ROWS * (WORKERS if is_synchronous else 1)  # of a step
    command = [bench.ROOT / "build/dtrun", "train", bench.CNN, "--data", bench.DATA, "--log-format", "json", "--log-every", EXAMPLES_A_POINT // rows,
               "--epochs", 1000, "--devices", "cpu:1x1", "--local-servers", SERVERS, "--workers", WORKERS,
               *(["--staleness", 0, "--replicas", WORKERS] if is_synchronous else [])]
    began, points, is_over = time.perf_counter(), [], threading.Event()
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        slowing = threading.Thread(target=slow_down, args=(process, is_over))
        if is_slowed:
            slowing.start()
        for event in map(json.loads, process.stdout):
            if event["event"] != "step":
                continue
            points.append((time.perf_counter() - began, event["number"] * rows, event["loss"]))
            if points[-1][0] - points[0][0] > seconds:
                break
        is_over.set()
        if is_slowed:
            slowing.join()
        if process.poll() is not None:
            sys.exit(f"{' '.join(process.args)}: exit status {process.returncode}")
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    return points


def examples_per_second(points):
    (first, before, _), (last, after, _) = points[0], points[-1]
    return (after - before) / (last - first)


# ---- what is printed, what is drawn ----

def print_table(n):
    bench.head(f"examples a second, {WORKERS} workers and {SERVERS} servers; {bench.counted(n)} of {TIMED_SECONDS} s", *KINDS, "times as fast")
    for name, is_slowed in CASES:
        timed = lambda kind: examples_per_second(train(KINDS[kind], is_slowed, TIMED_SECONDS))  # noqa: E731, B023
        synchronous, asynchronous, ratio = bench.pairs(n, lambda: timed("synchronous"), lambda: timed("asynchronous"))
        bench.row(name, f"{asynchronous:,.0f}", f"{synchronous:,.0f}", f"{ratio:.2f}")


WIDTH, HEIGHT, LEFT, TOP, GAP, MOST_LOSS = 380, 260, 50, 40, 60, 1.2
COLORS = {"asynchronous": "#0b6e99", "synchronous": "#c4622d"}


def smooth(points):
    """Medians of five: the loss is that of one batch."""
    return [(points[i][0], statistics.median(loss for *_, loss in points[max(i - 2, 0):i + 3])) for i in range(len(points))]


def panel(title, left, curves):
    """The lines of one picture."""
    x = lambda seconds: left + WIDTH * min(seconds / DRAWN_SECONDS, 1)  # noqa: E731
    y = lambda loss: TOP + HEIGHT * (1 - min(loss, MOST_LOSS) / MOST_LOSS)  # noqa: E731
    yield f'<text x="{left + WIDTH / 2}" y="{TOP - 16}" text-anchor="middle" style="font-weight: bold">{title}</text>'
    for seconds in range(0, DRAWN_SECONDS + 1, 10):
        yield f'<path d="M{x(seconds):.0f} {TOP}v{HEIGHT}" class="grid"/>'
        yield f'<text x="{x(seconds):.0f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{seconds} s</text>'
    for tenths in range(0, 13, 2):
        yield f'<path d="M{left} {y(tenths / 10):.0f}h{WIDTH}" class="grid"/>'
        yield f'<text x="{left - 6}" y="{y(tenths / 10) + 4:.0f}" text-anchor="end">{tenths / 10}</text>'
    for i, (name, points) in enumerate(curves):
        line = " ".join(f"{x(seconds):.1f},{y(loss):.1f}" for seconds, loss in smooth(points) if seconds <= DRAWN_SECONDS)
        yield f'<polyline points="{line}" fill="none" stroke="{COLORS[name]}" stroke-width="2"/>'
        yield f'<text x="{left + WIDTH - 8}" y="{TOP + 20 + 18 * i}" text-anchor="end" fill="{COLORS[name]}">{name}</text>'


def draw(file):
    lines = []
    for i, (title, is_slowed) in enumerate(CASES):
        curves = [(name, train(kind, is_slowed, DRAWN_SECONDS)) for name, kind in KINDS.items()]
        lines += panel(title, LEFT + i * (WIDTH + GAP), curves)
    width, height = LEFT + 2 * WIDTH + GAP + 20, TOP + HEIGHT + 34
    pathlib.Path(file).write_text(f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<style>text {{ font: 12px sans-serif }} .grid {{ stroke: #ddd; fill: none }}</style>
<rect width="100%" height="100%" fill="white"/>
{chr(10).join(lines)}
</svg>
""")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--picture")
    options = parser.parse_args()
    draw(options.picture) if options.picture else print_table(options.pairs)


main()
