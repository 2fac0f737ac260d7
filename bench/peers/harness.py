"""What the scripts beside this have in common: batches of Fashion-MNIST, cores, clocks, and the JSON line."""

import argparse
import gzip
import json
import os
import statistics
import time

import numpy as np

N_BATCHES = 16  # different batches that the steps go round over
N_WARMUP = 10


def read_idx(folder, name):
    """The array in an IDX file of unsigned bytes, decompressed or with .gz, in this order."""
    path = os.path.join(folder, name)
    with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz") as file:
        raw = file.read()
    n_dims = raw[3]
    shape = np.frombuffer(raw, ">u4", n_dims, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * n_dims).reshape(shape)


def read_training_set(folder):
    """(images u8[60000, 28, 28], labels u8[60000])"""
    return read_idx(folder, "train-images-idx3-ubyte"), read_idx(folder, "train-labels-idx1-ubyte")


def read_batches(folder, batch):
    """[(image u8[batch, 28, 28], label u8[batch])], the first N_BATCHES of the training set."""
    images, labels = read_training_set(folder)
    return [(images[i * batch : (i + 1) * batch], labels[i * batch : (i + 1) * batch]) for i in range(N_BATCHES)]


def parser(description, batch, threads):
    result = argparse.ArgumentParser(description=description.splitlines()[0])
    result.add_argument("--batch", type=int, default=batch, help="the global batch (%(default)s)")
    result.add_argument("--threads", type=int, default=threads, help="and cores (%(default)s)")
    result.add_argument("--steps", type=int, default=50, help="timed steps; 0: end after the first step (%(default)s)")
    result.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="folder of the IDX files (%(default)s)")
    return result


def hold_to_cores(arguments_parser, threads):
    """To be called before a framework counts them."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < threads:
        arguments_parser.error(f"--threads {threads}, but this process may use {len(cores)} cores")
    os.sched_setaffinity(0, cores[:threads])


def seconds_since_start():
    """Since this process was started, to a hundredth."""
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def measure(step, n_steps):
    """What the steps took, for print_line: step(i) trains on batch i and returns its loss."""
    first = step(0)
    result = {"steps": n_steps, "first_step_seconds": round(seconds_since_start(), 3), "first_loss": round(first, 5)}
    if n_steps == 0:
        return result
    for i in range(1, N_WARMUP):
        step(i % N_BATCHES)
    times = []
    for i in range(N_WARMUP, N_WARMUP + n_steps):
        start = time.perf_counter()
        last = step(i % N_BATCHES)
        times.append(1e3 * (time.perf_counter() - start))
    tenths = statistics.quantiles(times, n=10)
    return result | {
        "step_ms": round(statistics.median(times), 4),
        "step_ms_low": round(tenths[0], 4),
        "step_ms_high": round(tenths[-1], 4),
        "last_loss": round(last, 5),
    }


def print_line(peer, version, model, arguments, measured):
    about = {"peer": peer, "version": version, "model": model, "global_batch": arguments.batch, "threads": arguments.threads}
    print(json.dumps(about | measured))
