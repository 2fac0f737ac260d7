"""The order of examples: `dtrun data` over two epochs beside a twin in plain Python, for files in turn, sources side by side, and the stages that choose;
and the same rows when it begins in the second epoch."""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

PROGRAM = """
data some = {pipeline} | batch(5)

step train({inputs}) from some {{ report total: last(sum(f32(x))) }}
"""


def interleave(files, cycle, block):
    """Item after item, as tf.data's documentation describes it."""
    files, places, out = [list(file) for file in files], [None] * cycle, []
    while files or any(place is not None for place in places):
        for i in range(cycle):
            if places[i] is None and files:
                places[i] = files.pop(0)
            for _ in range(block):
                if places[i]:
                    out.append(places[i].pop(0))
                elif places[i] is not None:
                    places[i] = None
                    break
    return out


data = FOLDER / "data"
data.mkdir()
files = ["abcde", "f", "ghi", "jklmnopqrstu", "vw"]
for i, text in enumerate(files):
    (data / f"part-{i}.txt").write_text(text)
    (data / f"line-{i}.txt").write_text("".join(f"{ord(c)}\n" for c in text))
numpy.save(data / "long.npy", numpy.arange(40, dtype=numpy.int64) * 10)
everything = [ord(c) for c in "".join(files)]
n = len(everything)


def order(cycle, block):
    return [ord(c) for c in interleave(files, cycle, block)]


evens = [c for c in everything if c % 2 == 0]
SOURCE_OF_BYTES = 'bytes("part-*.txt")'
cases = [
    (SOURCE_OF_BYTES, "x: u8[B]", [everything]),
    (f"{SOURCE_OF_BYTES} | interleave(cycle: 2, block: 3)", "x: u8[B]", [order(2, 3)]),
    (f"{SOURCE_OF_BYTES} | interleave(3)", "x: u8[B]", [order(3, 1)]),
    (f"{SOURCE_OF_BYTES} | interleave(9, 2) | skip(3) | repeat(2) | take(30)", "x: u8[B]", [(order(9, 2)[3:] * 2)[:30]]),
    (f"{SOURCE_OF_BYTES} | interleave(3, 2) | filter(even) | cache()", "x: u8[B]", [[c for c in order(3, 2) if c % 2 == 0]]),
    ('lines("line-*.txt") | interleave(2, 3) | map(length)', "x: i64[B]", [[len(str(c)) for c in order(2, 3)]]),
    (f'zip({SOURCE_OF_BYTES}, npy("long.npy"))', "x: u8[B], y: i64[B]", [everything, [10 * i for i in range(n)]]),
    (f'zip(zip({SOURCE_OF_BYTES}, npy("long.npy")), range(7)) | take(6) | repeat(2)', "x: u8[B], y: i64[B], z: i64[B]",
     [everything[:6] * 2, [0, 10, 20, 30, 40, 50] * 2, [0, 1, 2, 3, 4, 5] * 2]),
    (f"{SOURCE_OF_BYTES} | filter(even) | enumerate() | repeat(2)", "y: i64[B], x: u8[B]", [evens * 2, list(range(len(evens))) * 2]),
    (f"{SOURCE_OF_BYTES} | enumerate() | cache() | filter(late)", "y: i64[B], x: u8[B]", [everything[9:], list(range(9, n))]),
    ('lines("line-*.txt") | pad(4, value: -1) | map(first)', "x: i32[B], y: i32[B]",
     [[ord(str(c)[0]) for c in everything], [-1] * n]),
    ('lines("line-*.txt") | pad(2, truncate: true) | map(second)', "x: i32[B]", [[ord(str(c)[1]) for c in everything]]),
]
FUNCTIONS = """
fn even(x: u8) { return x % 2 == 0 }
fn late(i: i64, x: u8) { return i > 8 }
fn length(line) { return n_chars(line) }
fn first(x: i32[4]) { return x[0], x[3] }
fn second(x: i32[2]) { return x[1] }
"""
for i, (pipeline, inputs, wanted) in enumerate(cases):
    program = compile_program(FUNCTIONS + PROGRAM.format(pipeline=pipeline, inputs=inputs), f"case{i}")
    for epochs, flags in ((2, ("--batches", 2 * -(-len(wanted[0]) // 5))), (1, ("--epoch", 2))):
        folder = FOLDER / f"out{i}-{epochs}"
        Run("data", program, "--data", data, "-o", folder, *flags)
        for name, column in zip("xyz", wanted):
            got = numpy.load(folder / f"{name}.npy").tolist()
            check(got == column * epochs, f"{pipeline}: {name} is\n{got}, wanted\n{column * epochs}")

# a text that is too long is an error, which says how long it is
long = compile_program(PROGRAM.format(pipeline='lines("line-*.txt") | skip(3) | pad(2)', inputs="x: i32[B, 2]"), "long")
error = Run("data", long, "--data", data, "-o", FOLDER / "no", expect=1).error
check("row 3 (from 0)" in error and "a text of 3 bytes is longer than the 2 of pad()" in error and "truncate: true" in error, error)
finish()
