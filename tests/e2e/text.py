"""Text as data: what functions of text give, beside Python's; windows; the same bits on any number of devices and processes, resumed in mid-epoch; what is wrong is
named."""
import json
import os
import sys
import unicodedata

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/golden"))
import mpi  # noqa: E402
from text_lines import lines  # noqa: E402
from training import *  # noqa: E402,F403

data = FOLDER / "data"
data.mkdir()
made = lines(600, 3, ("And God said, Let there be light: and there was light.", "# a comment that is longer than most"))
(data / "part-2.txt").write_bytes("\n".join(made[:300]).encode())             # without a line end
(data / "part-10.txt.gz").write_bytes(gzip.compress("\r\n".join(made[300:] + [""]).encode()))
stream = made[:300]                                                           # the pattern does not match the name with .gz

# A vocabulary of bytes alone, so that tokens are the text: bytes that can be seen are themselves, others U+0100 and on.
seen = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
characters = {chr(b): b for b in seen} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in seen)}
(data / "vocab.json").write_text(json.dumps(characters))
(data / "merges.txt").write_text("#version: 0.2\n")

LOOK = """
use optimizers
%s
model Nothing(x: f32[B]) {
    param factor: f32 = 1.0
    return x * factor
}
step train(%s) from train_set {
    minimize(Nothing(iota([B], dtype: f32)), sgd(0.0))
    report x: last(sum(%s))
}
"""


def look(name, pipeline, inputs, expect=0):
    """The arrays of an epoch, by `dtrun data`."""
    first = inputs.split(":")[0]
    program = compile_program(LOOK % (pipeline, inputs, f"i64({first})"), name)
    run = Run("data", program, "--data", data, "-o", FOLDER / name, expect=expect)
    return run.error if expect else {path.stem: numpy.load(path) for path in (FOLDER / name).iterdir()}


# numbers of texts
def n_words(line):  # as str.split has white space
    return len(line.split())


got = look("numbers", """
fn numbers(line) { return n_chars(line), n_bytes(line), n_words(strip(line)), contains(line, "The"), ends_with(line, "."), starts_with(line, "And ") }
data train_set = lines("part-*.txt") | filter(fn(line) => n_bytes(line) > 20 and not starts_with(line, "#")) | map(numbers) | batch(16)
""", "chars: i64[B], bytes: i64[B], words: i64[B], the: bool[B], dot: bool[B], begins: bool[B]")
kept = [line for line in stream if len(line.encode()) > 20 and not line.startswith("#")]
check(100 < len(kept) < 300, f"{len(kept)} lines pass the filter")
wanted = {"chars": [len(line) for line in kept], "bytes": [len(line.encode()) for line in kept], "words": [n_words(line) for line in kept],
          "the": ["The" in line for line in kept], "dot": [line.endswith(".") for line in kept], "begins": [line.startswith("And ") for line in kept]}
for name, column in wanted.items():
    check(got[name].tolist() == column, f"{name}: {[(a, b, line) for a, b, line in zip(got[name].tolist(), column, kept) if a != b][:3]}")
check(any(wanted["the"]) and any(wanted["begins"]), "nothing is true")

# functions that give texts, as the bytes of what they give
LENGTH = 600
FUNCTIONS = (("lower(line)", lambda s: "".join(c.lower()[0] for c in s)), ("strip(line)", str.strip), ("nfc(line)", lambda s: unicodedata.normalize("NFC", s)),
             ("nfd(line)", lambda s: unicodedata.normalize("NFD", s)), ("nfkc(line)", lambda s: unicodedata.normalize("NFKC", s)),
             ('remove_prefix(line, "And ")', lambda s: s.removeprefix("And ")), ('remove_suffix(line, "light.")', lambda s: s.removesuffix("light.")),
             ('replace(line, "light", "die Lüge")', lambda s: s.replace("light", "die Lüge")), ("substring(line, 3, -2)", lambda s: s[3:-2]),
             ("substring(strip(line), -5, 100000)", lambda s: s.strip()[-5:]), ('replace(replace(nfkc(line), " ", ""), "e", "")', lambda s: unicodedata.normalize("NFKC", s).replace(" ", "").replace("e", "")))
for i, (call, python) in enumerate(FUNCTIONS):
    got = look(f"text{i}", f"""
fn change(line) {{ return {call}, n_bytes({call}) }}
data train_set = lines("part-2.txt") | map(change) | cache() | bpe("vocab.json", merges: "merges.txt", length: {LENGTH}) | batch(16)
""", f"token: i32[B, {LENGTH}], n: i64[B]")
    for line, row, n in zip(stream, got["token"], got["n"]):
        text = python(line).encode()
        check(bytes(row.astype(numpy.uint8))[:min(n, LENGTH)] == text[:LENGTH] and n == len(text), f"{call} of {line!r}: {bytes(row.astype(numpy.uint8))[:n]}")
    check(len(got["n"]) == 300, call)

# windows over the files, one after the other
both = (data / "part-2.txt").read_bytes() + gzip.decompress((data / "part-10.txt.gz").read_bytes())
got = look("windows", 'data train_set = bytes("part-2.txt", "part-10.txt") | windows(33, shift: 32) | batch(7)', "text: u8[B, 33]")["text"]
check([bytes(row) for row in got] == [both[i:i + 33] for i in range(0, len(both) - 32, 32)], "windows")
got = look("part", 'data train_set = bytes("part-2.txt", "part-10.txt") | skip(100) | take(1000) | skip(7) | windows(9) | map(fn(text: u8[9]) => reverse(text, axis: 0)) | batch(7)',
           "text: u8[B, 9]")["text"]
part = both[100:1100][7:]
check([bytes(row)[::-1] for row in got] == [part[i:i + 9] for i in range(0, len(part) - 8, 9)], "windows of a part")

# texts beside numbers: enumerate counts before them, zip puts them after the components of other sources
numpy.save(data / "x.npy", numpy.arange(300, dtype=numpy.float32))
got = look("numbered", """
fn measure(i: i64, line) { return i, n_chars(line), lower(line) }
fn numbers(j: i64, i: i64, n: i64, token: i32[8]) { return i, j, n }
data train_set = lines("part-2.txt") | enumerate() | filter(fn(i: i64, line) => n_chars(line) > 10) | map(measure)
               | enumerate() | bpe("vocab.json", merges: "merges.txt", length: 8) | map(numbers) | batch(16)
""", "line: i64[B], kept: i64[B], chars: i64[B]")
longer = [(i, line) for i, line in enumerate(stream) if len(line) > 10]
check(got["line"].tolist() == [i for i, _ in longer] and got["kept"].tolist() == list(range(len(longer))), "numbers of lines")
check(got["chars"].tolist() == [len(line) for _, line in longer] and 100 < len(longer) < 300, "characters of numbered lines")
got = look("beside", """
fn numbers(x: f32, line, i: i64) { return x, i, n_bytes(line) }
data train_set = zip(npy("x.npy"), zip(lines("part-2.txt"), range(300))) | filter(fn(x: f32, line, i: i64) => not starts_with(line, "#"))
               | map(numbers) | batch(16)
""", "x: f32[B], i: i64[B], bytes: i64[B]")
plain = [(i, len(line.encode())) for i, line in enumerate(stream) if not line.startswith("#")]
check([(int(x), i, n) for x, i, n in zip(*(got[name].tolist() for name in ("x", "i", "bytes")))] == [(i, i, n) for i, n in plain], "texts beside numbers")

# the same bits on any devices and processes, and resumed
TRAIN = compile_program("""
use nn, losses, optimizers
data train_set = lines("part-2.txt", "part-10.txt") | filter(fn(line) => n_chars(line) > 10) | map(fn(line) => lower(line))
               | bpe("vocab.json", merges: "merges.txt", length: 24) | cache() | shuffle(100) | batch(8) | prefetch(2)
model Next(token: i32[B, T]) -> f32[B, T, 256] { return dense(embedding(token, rows: 256, width: 8), units: 256) }
step train(token: i32[B, 24]) from train_set {
    loss = sparse_categorical_crossentropy(token[:, 1:], Next(token[:, :-1]))
    minimize(loss, adam(learning_rate: 1e-2))
    report loss: mean(loss)
}
""", "train")
FLAGS = ("--data", data, "--epochs", 2, "--replicas", 4)
whole = Run("train", TRAIN, *FLAGS, "--devices", "cpu:1x1", "--checkpoint-dir", FOLDER / "whole")
check(whole.all("epoch")[1]["loss"] < whole.all("epoch")[0]["loss"], "it does not learn")
for name, steps, devices in (("devices", (10 ** 6,), "cpu:2x2"), ("resumed", (3, 17, 10 ** 6), "cpu:4x1")):
    for most in steps:
        Run("train", TRAIN, *FLAGS, "--devices", devices, "--max-steps", most, "--checkpoint-dir", FOLDER / name, "--resume")
    check(bits(FOLDER / name) == bits(FOLDER / "whole"), f"{name}: other bits")
done = mpi.run("openmpi", 2, command("train", TRAIN, *FLAGS, "--devices", "cpu:1x1", "--checkpoint-dir", FOLDER / "processes"))
check(done.returncode == 0 and bits(FOLDER / "processes") == bits(FOLDER / "whole"), f"two processes: other bits\n{done.stdout}{done.stderr}")
check("reads the whole of all its files" in done.stdout, done.stdout)

# what is wrong is named
(data / "latin.txt").write_bytes("fine\nna\xefve\n".encode("latin-1"))
(data / "empty.txt").write_bytes(b"")
(data / "twice.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\na\n")
(data / "lacks.txt").write_text("[PAD]\n[CLS]\n[SEP]\na\n")
(data / "bytes.json").write_text(json.dumps({c: b for c, b in characters.items() if b != 65}))
(data / "merge.txt").write_text("#version: 0.2\na b\n")
for what, pipeline, wanted in (
        ("utf8", 'lines("latin.txt")', "latin.txt:2: is not UTF-8: byte 3 of the line is 0xef"),
        ("empty", 'lines("empty.txt")', "empty.txt: is empty"),
        ("twice", 'lines("part-2.txt") | wordpiece("twice.txt", length: 4)', "twice.txt:7: the token a stands in line 5 too"),
        ("lacks", 'lines("part-2.txt") | wordpiece("lacks.txt", length: 4)', "lacks.txt: has no token [UNK]"),
        ("missing", 'lines("part-2.txt") | wordpiece("none.txt", length: 4)', "none.txt: no such file"),
        ("bytes", 'lines("part-2.txt") | bpe("bytes.json", "merges.txt", 4)', "bytes.json: has no token for the byte 0x41"),
        ("json", 'lines("part-2.txt") | bpe("merges.txt", "merges.txt", 4)', "merges.txt: is not an object of JSON"),
        ("merge", 'lines("part-2.txt") | bpe("vocab.json", "merge.txt", 4)', "merge.txt:2: what a b becomes is no token of the vocabulary"),
        ("numbers", 'bytes("part-2.txt") | bpe("vocab.json", "merges.txt", 4)', "part-2.txt: an example has no text here, but bpe() of data train_set takes one"),
        ("typed", 'lines("part-2.txt") | map(fn(x: f32) => x)', "component 1 of an example is a text, but map() of data train_set takes x: f32"),
        ("batch", 'lines("part-2.txt")', "is a text at batch(): a stage such as wordpiece() or pad() makes numbers of it"),
        ("pattern", 'lines("no-*.txt")', "no-*.txt: matches no file")):
    error = look(f"wrong_{what}", f"data train_set = {pipeline} | batch(4)", "token: i32[B, 4]", expect=1)
    check(wanted in error, f"{what}: {error}")

# a vocabulary that is larger than the table, ids in a file, and an image's label: file, row and element are named
(data / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n")
(data / "letters-1.txt").write_text("a b\nb a\n")
(data / "letters-2.txt").write_text("a a a\n" * 20 + "a b c\n" + "b\n" * 20)
(data / "ids.csv").write_text("size,id,kind\n" + "1,2,0\n" * 30 + "3,70,1\n" + "1,2,0\n" * 30)
(data / "tail").write_bytes(bytes([1] * 60 + [9] + [1] * 39))
TABLE = """
use nn, losses, optimizers
%s
model Table(id: i32[B, T]) -> f32[B, T, 2] { return embedding(id, rows: 6, width: 2) }
step train(%s) from train_set { minimize(sum(Table(%s), axes: [1, 2]), sgd(0.01)) }
"""
for what, pipeline, inputs, ids, wanted in (
        ("lines", 'lines("letters-*.txt") | filter(fn(line) => n_chars(line) > 2) | wordpiece("vocab.txt", length: 5) | cache() | shuffle(5) | batch(4) | prefetch(2)',
         "token: i32[B, 5]", "token", "letters-2.txt:21, token[3]."),
        ("csv", 'csv("ids.csv") | shuffle(100) | batch(8)', "row: f32[B, 3]", "i32(row)", "row 30 (from 0) of DATA/ids.csv, row[1]."),
        ("bytes", 'bytes("tail") | skip(3) | windows(10) | batch(2)', "text: u8[B, 10]", "i32(text)", "the window from byte 53 of DATA/tail on, text[7]."),
        ("zip", 'zip(bytes("tail"), range(100)) | batch(16)', "id: u8[B], i: i64[B]", "i32(id)[:, newaxis] + 0 * i32(i)[:, newaxis]",
         "byte 60 of DATA/tail and row 60 (from 0) of range(), id. ")):
    program = compile_program(TABLE % (f"data train_set = {pipeline}", inputs, ids), f"table_{what}")
    for devices in ("cpu:1x1", "cpu:2x1"):
        error = Run("train", program, "--data", data, "--replicas", 2, "--devices", devices, expect=1).error
        check("is not within 0 to 5" in error and wanted.replace("DATA", str(data)) in error, f"{what}: {error}")

finish()
