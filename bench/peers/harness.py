"""What the scripts beside this have in common: batches of Fashion-MNIST, cores, clocks, PyTorch's step, and the JSON line."""

import argparse
import gzip
import json
import os
import resource
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


def processor_seconds():
    """Of this process, and of those that it has waited for, such as a compiler's."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(step, i):
    """(the loss of step(i), milliseconds from call to return, milliseconds of processor time)"""
    start, processor_start = time.perf_counter(), processor_seconds()
    loss = step(i % N_BATCHES)
    return loss, 1e3 * (time.perf_counter() - start), 1e3 * (processor_seconds() - processor_start)


def measure(step, n_steps):
    """What the steps took, for print_line: step(i) trains on batch i and returns its loss."""
    first, wall, processor = timed(step, 0)
    result = {"steps": n_steps, "first_step_seconds": round(seconds_since_start(), 3), "first_loss": round(first, 5)}
    if n_steps == 0:
        return result
    losses = [first, *(step(i % N_BATCHES) for i in range(1, N_WARMUP))]
    found, times, processor_times = zip(*(timed(step, i) for i in range(N_WARMUP, N_WARMUP + n_steps)))
    tenths, step_ms = statistics.quantiles(times, n=10), statistics.median(times)
    return result | {
        "step_ms": round(step_ms, 4),
        "step_ms_low": round(tenths[0], 4),
        "step_ms_high": round(tenths[-1], 4),
        "compile_seconds": round((wall - step_ms) / 1e3, 3),
        "compile_processor_seconds": round((processor - statistics.median(processor_times)) / 1e3, 3),
        "losses": losses,
        "last_loss": round(found[-1], 5),
    }


def torch_compiled(torch, function):
    """`function` compiled when it is first called. A small one is compiled before, so that loading the compiler and looking at the machine are not part
    of the first step."""
    x = torch.ones(64, requires_grad=True)
    torch.compile(lambda x: x.sin().sum())(x).backward()
    return torch.compile(function)


def torch_step(loss_of, optimizer, batches):
    """step(i) of PyTorch: loss_of(*batch) returns the loss first, and perhaps what else a step reports."""

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        loss, *_ = loss_of(*batches[i])
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def print_line(peer, version, model, arguments, measured):
    about = {"peer": peer, "version": version, "model": model, "global_batch": arguments.batch, "threads": arguments.threads}
    print(json.dumps(about | measured))
