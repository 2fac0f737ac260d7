"""dtrun info --processes: what it says of rounds, bytes and messages, held against numbers that are worked out here, from the tree alone."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

# Gradients of 144 x 32 + 32 + 32 x 10 + 10 floats, and two totals of eight bytes, each of them in units of 64 bytes. Of `half`, 40 sums of f16 cross as
# f32. Of `large`, 12 MB cross in pieces of at most 512 KiB between two processes, and a float by itself. Pairs of rows need all rows everywhere: 20 bytes of each.
TEXT = """
use nn, losses, optimizers

data train_set = idx("images.gz", "labels.gz") | batch(8)

model Net(image: u8[B, 12, 12]) -> f32[B, 10] {
    return dense(dense(flatten(f32(image)), units: 32, activation: relu), units: 10)
}

step train(image: u8[B, 12, 12], label: u8[B]) from train_set {
    logits = Net(image)
    loss   = sparse_categorical_crossentropy(label, logits)
    minimize(loss, sgd(learning_rate: 1e-3))
    report loss: mean(loss), accuracy: mean(argmax(logits) == label)
}

step half(x: f32[B, 40]) { return total: sum(f16(x), axis: 0) }
step large(x: f32[B, 3000000]) { return total: sum(x, axis: 0), other: sum(max(x, axis: 1)) }
step pairs(x: f32[B, 5]) { return nearest: argmax(x @ x.T, axis: 1) }
step alone(x: f32[B]) { return y: x + 1 }
"""
UNIT = 64
TRAIN_BYTES = sum((n + UNIT - 1) // UNIT * UNIT for n in (4 * 144 * 32, 4 * 32, 4 * 320, 4 * 10, 8, 8))
program = compile_program(TEXT, "net", "-O", "no-microbatches")  # a microbatch is a replica


def info(*flags, expect=0):
    done = subprocess.run(["dtrun", "info", program, *map(str, flags)], capture_output=True, text=True)
    check(done.returncode == expect, f"info {flags}: {done.returncode}, wanted {expect}\n{done.stdout}{done.stderr}")
    return done.stdout if expect == 0 else done.stderr


def exchanges(text):
    """{step: (what its first line says, rows of its table, what is said below it)}"""
    found = {}
    for part in re.split(r"^step ", text, flags=re.MULTILINE)[1:]:
        head, *lines = part.splitlines()
        name, head = head.split(": ", 1)
        rows = []
        for line in lines:
            row = re.fullmatch(r" +(\d+) +(\w+) +(\d+) +([\d.]+) (B|KiB|MiB) +(\d+) +(\w+) +(\d+) +([\d.]+) (B|KiB|MiB) +([\d.]+) +(\d+)", line)
            if row:
                size = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
                rows.append({"segment": int(row[1]), "kind": row[2], "tensors": int(row[3]), "bytes": float(row[4]) * size[row[5]],
                             "exchanges": int(row[6]), "algorithm": row[7], "rounds": int(row[8]), "sent": float(row[9]) * size[row[10]],
                             "times": float(row[11]), "messages": int(row[12])})
        found[name] = head, rows, lines[-1]
    return found


def nodes(first, end, start, n):
    """How many nodes of the tree over n leaves from `start` on make [first, end)."""
    if start + n <= first or start >= end:
        return 0
    if first <= start and start + n <= end:
        return 1
    left = 1 << (n - 1).bit_length() - 1
    return nodes(first, end, start, left) + nodes(first, end, start + left, n - left)


def near(found, wanted):
    return abs(found - wanted) <= 0.05 * 1024 + 1  # as it is printed


# ---- few processes, cut evenly and not ----
for processes, replicas in ((2, 2), (2, 8), (3, 8), (4, 8), (5, 16), (6, 24), (7, 96), (8, 31), (31, 97)):
    counts = [nodes(p * replicas // processes, (p + 1) * replicas // processes, 0, replicas) for p in range(processes)]
    head, (row, ), last = exchanges(info("--processes", processes, "--replicas", replicas))["train"]
    case = f"{processes} processes, {replicas} replicas: {head}, {row}, {last}"
    check(head.startswith(f"{replicas} replicas of 8 rows, in {replicas} microbatches: "), case)
    leave = f"{min(counts)}" if len(set(counts)) == 1 else rf"{min(counts)} (or|to) {max(counts)}"
    check(re.search(rf"which leave {leave} partial sums?$", head), case)
    check((row["kind"], row["tensors"], row["algorithm"], row["rounds"]) == ("all_reduce", 6, "direct", 2), case)
    check(near(row["bytes"], TRAIN_BYTES), case)
    share, k = TRAIN_BYTES / processes, max(counts)
    check(abs(row["sent"] - (k + 1) * (processes - 1) * share) <= processes * UNIT + 52, case)
    check(abs(row["times"] - row["sent"] / TRAIN_BYTES) < 0.01, case)
    check(row["messages"] == (k + 1) * (processes - 1), case)
    check(("odd places" in last) == (k > 1), case)

# ---- what is large crosses in pieces; of the float each process sends once: to its owner, or from it ----
head, (row, ), last = exchanges(info("--processes", 2, "--replicas", 2))["large"]
check((row["tensors"], row["exchanges"], row["rounds"], row["messages"]) == (2, 24, 2, 47), f"large: {row}")
check(abs(row["sent"] - 12e6) < 0.1 * (1 << 20), f"large: {row}")

# ---- a better number of processes ----
check("one of them sends 6 partial sums of everything; 6 or 12 processes send 1 each" in info("--processes", 7, "--replicas", 192), "7 of 192")
check("2 partial sums of everything; 750 or 1500 processes send 1 each" in info("--processes", 1000, "--replicas", 1500), "1000 of 1500")

# ---- many ----
_, (row, ), _ = exchanges(info("--processes", 1000, "--replicas", 1000))["train"]
check((row["algorithm"], row["rounds"]) == ("halving", 20) and 1.9 < row["times"] <= 2.2, row)

# ---- rows, widths, nothing ----
three = exchanges(info("--processes", 3, "--replicas", 3))
check([r["bytes"] for r in three["half"][1]] == [160], three["half"])  # as f16 it would be 80
gathered = three["pairs"][1][0]
rows = 3 * UNIT  # 8 of 20 bytes: those of each process begin with a unit
check((gathered["kind"], gathered["rounds"], gathered["bytes"]) == ("all_gather", 1, 2 * rows + 8 * 20), gathered)
check(gathered["sent"] == 2 * 8 * 20 and gathered["messages"] == 2, gathered)
check(three["alone"][1] == [] and three["alone"][2] == "    nothing crosses processes", three["alone"])
fewer = exchanges(info("--processes", 3, "--replicas", 6, "--global-batch", 12))
check(fewer["pairs"][1][0]["bytes"] == 2 * 2 * UNIT + 4 * 20 and fewer["train"][0].startswith("6 replicas of 2 rows"), fewer)
check(exchanges(info("--processes", 1))["train"][1:] == ([], "    nothing crosses processes"), "one process sends something")

# ---- a shared update: 163 x 100 floats are 254 units of 64 and 44 more; one process has 127 of them, the other one the rest ----
TRAINED = """
use nn, optimizers
model Net(x: f32[B, 100]) -> f32[B, 163] { return dense(x, units: 163) }
step train(x: f32[B, 100]) { minimize(sum(square(Net(x)), axis: 1), adam()) }
"""
program = compile_program(TRAINED, "shared", "--batch", "2")
_, (small, scattered, gathered), last = exchanges(info("--processes", 2, "--replicas", 2, "--shard-optimizer"))["train"]
check((small["kind"], small["tensors"], small["bytes"]) == ("all_reduce", 1, 4 * 163), small)
for row, kind in ((scattered, "reduce_scatter"), (gathered, "all_gather")):
    check((row["kind"], row["tensors"], row["rounds"], row["messages"]) == (kind, 1, 1, 1), row)
    check(near(row["bytes"], 4 * 16300) and near(row["sent"], 4 * (16300 - 127 * 64)), row)
states = 2 * 4 * 16463 + 8  # Adam's two, and its count
check(last.startswith("optimizer's states: at most 0.06 MiB of 0.13 MiB in each of 2 processes, ") and
      last.endswith(f" {100 * (2 * 4 * (16300 - 127 * 64 + 163) + 8) / states:.1f} %"), last)
check(info("--processes", 1, "--shard-optimizer").endswith("there is one process, which keeps all of the optimizer's states\n"), "one process")

# ---- mistakes ----
for flags, code, words in (
    (("--processes", 5, "--replicas", 4), 1, "step train: 5 processes for 4 microbatches: each process holds at least one; use at most --processes 4"),
    (("--processes", 2), 1, "2 processes for 1 microbatch:"),
    (("--processes", 99999999999, "--replicas", 4), 1, "99999999999 processes for 4 microbatches"),
    (("--processes", 2, "--replicas", 1 << 40), 1, "the number of replicas is 1 to"),
    (("--processes", 2, "--replicas", 3, "--global-batch", 8), 1, "cannot be dealt evenly to 3 replicas"),
    (("--processes", 2, "--replicas", 2, "--global-batch", 64), 1, "32 rows a replica, but"),
    (("--processes", 2, "--replicas", 2, "--devices", "cuda"), 1, "--target cuda"),
    (("--processes", 0), 2, "--processes takes a whole number, 1 or more, not 0"),
    (("--replicas", 2), 2, "--replicas needs --processes"),
    (("--shards-over", 4), 2, "--shards-over needs --processes"),
    (("--shard-optimizer",), 2, "--shard-optimizer needs --processes"),
    (("--processes", 2, "--text", "plan.txt"), 2, "--text or --processes, not both"),
):
    said = info(*flags, expect=code)
    check(words in said, f"{flags}: {said}")
finish()
