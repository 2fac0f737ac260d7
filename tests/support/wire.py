"""wire: what is between pairs of TAP devices, for kernels without netem: packets arrive late, and some never do.

    wire.py DELAY_MS LOSS DEVICE DEVICE [DEVICE DEVICE]...      makes the devices, says "ready", and carries packets until it is killed
"""
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
MOST_BYTES = 1 << 16
MOST_AT_A_TIME = 64  # packets of one device, before others have a turn


def tap(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def packets(device):
    for _ in range(MOST_AT_A_TIME):
        try:
            yield os.read(device, MOST_BYTES)
        except OSError:  # there are no more, or the device is down
            return


def main(delay_ms, loss, *names):
    devices = [tap(name) for name in names]
    other_end = {device: devices[i ^ 1] for i, device in enumerate(devices)}
    print("ready", flush=True)
    numbers, under_way, n = random.Random(1), [], 0
    while True:
        wait = max(0, under_way[0][0] - time.monotonic()) if under_way else None
        for device in select.select(devices, [], [], wait)[0]:
            for packet in packets(device):
                if numbers.random() >= loss:
                    n += 1  # among packets of one moment the earlier one goes first
                    heapq.heappush(under_way, (time.monotonic() + delay_ms / 1000, n, other_end[device], packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, device, packet = heapq.heappop(under_way)
            try:
                os.write(device, packet)
            except OSError:  # it is down, or full: the packet is lost
                pass


main(float(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])
