"""`dtrun generate`: the window moves over the text, text comes out while it is made and is the same for the same seed, draws are as likely as the model
says, and what cannot be done is said."""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

# Repeats what stood five bytes before, so that the whole text follows from how the window moves; and a chain that knows pairs of bytes.
REPEAT = """
step sample(text: u8[B, 8], length: i32[B]) {
    return next: gather(text, length - 5, axis: 1)
}
"""
CHAIN = """
model Pairs(token: i32[B, T]) -> f32[B, T, 256] {
    param table: f32[256, 256] = zeros()
    return table[token]
}

step sample(text: u8[B, 16], length: i32[B], temperature: f32[B]) {
    logits = gather(Pairs(i32(text)), length - 1, axis: 1)
    return next: u8(sample_categorical(logits, temperature[:, newaxis]))
}

step draw(token: i32[B], temperature: f32[B]) {
    return next: u8(sample_categorical(Pairs(token[:, newaxis])[:, 0], temperature[:, newaxis])), cold: sample_categorical(Pairs(token[:, newaxis])[:, 0], temperature: 0.5)
}
"""


def generate(program, *flags, expect=0):
    done = subprocess.run(["dtrun", "generate", str(program), *map(str, flags)], capture_output=True)
    check(done.returncode == expect, f"generate {flags} ended with {done.returncode}, wanted {expect}: {done.stderr.decode()}")
    return (done.stderr.decode() if expect else done.stdout), done.stderr.decode()


def text(program, *flags):
    return generate(program, *flags)[0]


# ---- the window ----
repeat = compile_program(REPEAT, "repeat")
check(text(repeat, "--prompt", "hello", "--length", 33) == (b"hello" * 8)[:38] + b"\n", "five bytes that repeat")
said, note = generate(repeat, "--prompt", "xx, hello", "--length", 3)
check(said == b"xx, hellohel\n" and note == "dtrun: note: the prompt has 9 bytes: step sample sees the last 8\n", (said, note))
check(text(repeat, "--prompt", b"\xff\xfe\x80\x01z".decode("utf-8", "surrogateescape"), "--length", 5) == b"\xff\xfe\x80\x01z" * 2 + b"\n", "bytes are bytes")
check(len(text(repeat, "--prompt", "hello")) == 5 + 200 + 1, "without --length")
refused = generate(repeat, "--prompt", "four", expect=1)[0]
check("repeat.dt:3:" in refused and "index -1 is not within 0 to 7" in refused, refused)

# ---- seeds and temperatures ----
logits = numpy.random.default_rng(3).normal(0, 2, (256, 256)).astype(numpy.float32)
header = json.dumps({"Pairs/table": {"dtype": "F32", "shape": [256, 256], "data_offsets": [0, logits.nbytes]}}).encode()
(FOLDER / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + logits.tobytes())
chain = compile_program(CHAIN, "chain", "--batch", "1024")
FLAGS = ("--init", FOLDER / "w.safetensors", "--prompt", "a", "--length", 100)
first = text(chain, *FLAGS, "--seed", 1)
check(len(first) == 102 and len(set(first)) > 30 and first == text(chain, *FLAGS, "--seed", 1), first)
check(first != text(chain, *FLAGS, "--seed", 2) and first == text(chain, *FLAGS, "--seed", 1, "--temperature", "1.0"), "seeds")
check(first == text(chain, *FLAGS, "--seed", 1, "--level", "x86-64-v3") == text(chain, *FLAGS, "--seed", 1, "--devices", "cpu:1x1"), "other code, other text")
likeliest = [ord("a")]
for _ in range(100):
    likeliest.append(int(logits[likeliest[-1]].argmax()))
check(text(chain, *FLAGS, "--temperature", "0") == bytes(likeliest) + b"\n", "temperature 0")

# ---- as likely as the model says: 100,000 draws of one byte; cold: at temperature 1/2. A chi-square of 255 degrees has a standard deviation of 22.6 ----
numpy.save(FOLDER / "token.npy", numpy.full(100000, 7, numpy.int32))
numpy.save(FOLDER / "temperature.npy", numpy.full(100000, 2, numpy.float32))
Run("predict", chain, "--step", "draw", "--init", FOLDER / "w.safetensors", "--input", FOLDER / "token.npy", "--input", FOLDER / "temperature.npy",
    "--output", FOLDER / "draws")
for name, temperature in (("next", 2), ("cold", 0.5)):
    likely = numpy.exp(logits[7].astype(numpy.float64) / temperature)
    wanted = 100000 * likely / likely.sum()
    found = numpy.bincount(numpy.load(FOLDER / f"draws/{name}.npy"), minlength=256)
    often = wanted > 5
    chi_square, degrees = ((found - wanted)[often] ** 2 / wanted[often]).sum(), often.sum() - 1
    check(abs(chi_square - degrees) < 5 * (2 * degrees) ** 0.5, f"{name}: chi square {chi_square} of {degrees} degrees")
    check((((found - wanted[::-1]) ** 2 / wanted[::-1])[often]).sum() > 10 * degrees, "another distribution fits as well: the test cannot fail")

# ---- text comes while it is made; a reader that goes away; a signal ----
endless = subprocess.Popen(["dtrun", "generate", str(chain), *map(str, FLAGS[:4]), "--length", str(10**9)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
check(len(endless.stdout.read(50)) == 50, "nothing comes out")
endless.stdout.close()
check(endless.wait() == 1 and b"cannot write to standard output" in endless.stderr.read(), "the reader went away")
endless = subprocess.Popen(["dtrun", "generate", str(chain), *map(str, FLAGS[:4]), "--length", str(10**9)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
endless.stdout.read(10)
endless.terminate()
rest = endless.communicate()[0]
check(endless.returncode == 128 + 15 and rest.endswith(b"\n"), endless.returncode)

# ---- what cannot be done ----
for flags, words in ((("--prompt", ""), "--prompt is empty"), ((), "how does the text begin? --prompt TEXT"),
                     (("--prompt", "a", "--length", 0), "--length takes a whole number, 1 or more, not 0"),
                     (("--prompt", "a", "--temperature", "-1"), "--temperature takes a number, 0 or more, not -1"),
                     (("--prompt", "a", "--temperature", "nan"), "not nan")):
    error = generate(chain, *flags, expect=2)[0]
    check(words in error, error)
for program, flags, words in ((chain, (), "no weights: name a folder of checkpoints"), (repeat, ("--temperature", 1), "step sample takes no temperature"),
                              (chain, ("--step", "evaluate"), "has no step evaluate"),
                              (chain, ("--step", "draw"), "step draw(token: i32[B], temperature: f32[B]) returns (next: u8[B], cold: i64[B]): text comes from a step of")):
    error = generate(program, "--prompt", "hello", *flags, expect=1)[0]
    check(words in error, error)
finish()
