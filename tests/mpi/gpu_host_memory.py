"""Processes with GPUs train what one GPU trains, to the bit, where what crosses goes through the host's memory, by MPI: because they share a GPU, have
several each, or are told to do without NCCL; --reduce=fast leaves sums to MPI. The fake driver (tests/support/fake_cuda.h) is in each process, its queues in several orders."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu_processes import *  # noqa: E402,F403


BY_HOST = "through the machines' memory, and not by NCCL"


def main():
    net, halves = Case("net", NET), Case("halves", HALVES, batch=24)
    for n, seed in ((2, 0), (3, 1)):
        check_said(net.agrees(n, seed, count=1), BY_HOST, "processes 0 and 1 share a GPU")
        check_said(halves.agrees(n, seed, count=1), BY_HOST, "processes 0 and 1 share a GPU")
    check_said(net.agrees(3, 2, count=2), BY_HOST, "processes 0 and 2 share a GPU")
    check_said(net.agrees(2, 2, "--library", "none"), BY_HOST, "--library none")
    check_said(net.agrees(2, 3, devices="cuda:0,1"), BY_HOST, "it has more than one GPU")
    is_added_up_by(Case("pairs6", PAIRS, batch=24, replicas=6), "Open MPI", 2, count=1)
    finish()


main()
