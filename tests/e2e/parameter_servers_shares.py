"""Parameter servers keep shares of what is trained: of parameters, states and slots that are updated element by element, and of parameters that nobody
updates. What an update, a penalty or an average reads in another way every server has whole. The bytes are those of one process in all cases."""
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import servers
from training import check, command, compile_program, finish, Run

KINDS = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

model Frozen() -> f32[40, 64] {
    param table: f32[40, 64] = truncated_normal(stddev: 0.1), trainable: false
    return table
}
fn network(a: f32[B, 6]) { return dense(dense(dense(a, units: 40, activation: tanh) @ Frozen(), units: 1030, activation: tanh), units: 1)[:, 0] }
model Plain(a: f32[B, 6]) -> f32[B] { return network(a) }
model Clipped(a: f32[B, 6]) -> f32[B] { return network(a) }
model States(a: f32[B, 6]) -> f32[B] { return network(a) }
model Average(a: f32[B, 6]) -> f32[B] { return network(a) }
model Matrices(a: f32[B, 6]) -> f32[B] { return network(a) }
model Penalised(a: f32[B, 6]) -> f32[B, 64] {
    param w: f32[6, 64] = truncated_normal(stddev: 0.2)
    param v: f32[64, 64] = truncated_normal(stddev: 0.2)
    return a @ w @ v + sum(v @ v.T) * 1e-3 + sum(square(v)) * 1e-3
}
model Kept(a: f32[B, 6]) -> f32[B] {
    param w: f32[6, 400] = truncated_normal(stddev: 0.2)
    state mean_w: f32[6, 400] = 0.0
    y = sum(tanh(a @ w) + a @ mean_w, axis: 1)
    mean_w := mean_w * 0.9 + w * 0.1
    return y
}
model Half(a: f32[B, 6]) -> f32[B] {  # sums of 16 bits do not cross where they are wanted, and a share is more than one piece
    param w: bf16[6, 50000] = truncated_normal(stddev: 0.2)
    return mean(tanh(f32(bf16(a) @ w)), axis: 1)
}
model Tied(a: f32[B, 6]) -> f32[B] {
    param table: f32[9000, 16] = truncated_normal(stddev: 0.1)
    x = table[i32(clip(a[:, 0], 0.0, 1.0))]
    y = tanh(x @ table.T)
    return sum(square(y @ table), axis: 1) * 1e-3
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    error = fn(y) => square(y - b[:, 0])
    minimize(error(Plain(a)), sgd(0.01), over: params(Plain))
    apply(sgd(0.1), clip_by_global_norm(grad(objective(error(Clipped(a))), params(Clipped)), 0.1))
    minimize(error(States(a)), adam(0.01), over: params(States))
    followed = error(Average(a))
    apply(moving_average(momentum: 0.9), follow(params(Average), params(States)))
    minimize(error(Matrices(a)), muon(), over: params(Matrices))
    penalised = sum(square(Penalised(a)), axis: 1)
    minimize(penalised, sgd(0.01, momentum: 0.9), over: params(Penalised))
    minimize(error(Half(a)), sgd(100.0), over: params(Half))
    minimize(error(Tied(a)), adam(0.01), over: params(Tied))
    minimize(error(Kept(a)), sgd(0.01), over: params(Kept))
    report loss: mean(penalised), followed: mean(followed)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    all = Plain(a) + Clipped(a) + States(a) + Average(a) + Matrices(a) + Penalised(a)[:, 0]
    report loss: mean(square(all - b[:, 0]))
}
"""
# Examples go through Judge once more after its update.
JUDGED = KINDS.replace("step train", """model Judge(a: f32[B, 6]) -> f32[B] { return network(a) }
model Maker(a: f32[B, 6]) -> f32[B, 6] { return dense(a, units: 6) }

step train""").replace("    report loss: mean(penalised)", """    minimize(error(Judge(a)), adam(0.01), over: params(Judge))
    minimize(square(Judge(Maker(a))), sgd(0.01), over: params(Maker))
    report loss: mean(penalised)""")
kinds, judged = layouts.Case("kinds", KINDS, 24), layouts.Case("judged", JUDGED, 24)


def bytes_of_one(case, replicas):
    folder = servers.new_folder()
    Run("train", case.artifact, *case.flags(replicas), "--devices", "cpu:1x1", "--seed", 3, "--epochs", 2, "--checkpoint-dir", folder)
    return layouts.left_by(folder)


# ---- bytes ----
folder = servers.new_folder()
said = servers.train(judged, 4, 3, 2, folder, "--epochs", 2)
check(layouts.left_by(folder) == bytes_of_one(judged, 4), "three servers and two workers end with other bytes than one process")
folder = servers.new_folder()
servers.train(kinds, 1, 2, 1, folder, "--epochs", 2, staleness=None)
check(layouts.left_by(folder) == bytes_of_one(kinds, 1), "two servers and a worker of its own pace end with other bytes than one process")

# ---- what each has ----
with zipfile.ZipFile(judged.artifact) as archive:
    variables = json.loads(archive.read("manifest.json"))["variables"]
whole = {v["path"] for v in variables if "share" not in v and math.prod(v["shape"]) >= 1024}
judges = {f"adam_2/Judge/dense_1/bias/{slot}" for slot in "mv"}  # what goes through examples takes the new bias from these
matrices = {"Matrices/dense_1/kernel", "muon/Matrices/dense_2/kernel/m"}
check(whole == {"Clipped/dense_1/kernel", "Penalised/v"} | matrices | judges, f"every server has all of {sorted(whole)}")
notes = [e["message"] for e in said if e["event"] == "note"]
found = re.search(r"parameters: at most ([\d.]+) MiB of ([\d.]+) MiB in each of 3 servers", " ".join(notes))
check(found is not None and float(found[1]) < 0.6 * float(found[2]), notes)

# ---- initial values ----
wrong = compile_program(KINDS.replace("truncated_normal(stddev: 0.1), trainable: false", "fn(shape) => log(zeros(shape) - 1), trainable: false"), "wrong",
                        "--batch", "24")
done = subprocess.run(command("train", wrong, *kinds.flags(4), "--local-servers", 2, "--workers", 1, "--staleness", 0, "--check-numerics"),
                      capture_output=True, text=True, timeout=servers.SECONDS)
check(done.returncode == 1 and "the initial values: kernel init" in done.stderr, f"initial values that are not finite: {done.returncode} {done.stderr}")

LARGE = """
use nn, optimizers
data rows = npy("a.npy", "b.npy") | repeat(400) | batch(24)
model Frozen(a: f32[B, 6]) -> f32[B, 8] {
    param table: f32[2000000, 8] = constant(0.5), trainable: false
    return table[i32(clip(a[:, 0], 0.0, 1.0))]
}
model Net(a: f32[B, 6]) -> f32[B] { return dense(Frozen(a), units: 1)[:, 0] }
step train(a: f32[B, 6], b: f32[B, 6]) from rows {
    loss = square(Net(a) - b[:, 0])
    minimize(loss, sgd(0.01), over: params(Net))
    report loss: mean(loss)
}
"""
TABLE_MIB = 2000000 * 8 * 4 / 2**20
large = compile_program(LARGE, "large", "--batch", "24")


def memory(n_servers, *flags):
    """MiB of its own that the largest server has while steps are made."""
    training = subprocess.Popen(command("train", large, "--data", layouts.DATA, "--local-servers", n_servers, "--workers", 1, "--epochs", 1000,
                                        "--devices", "cpu:1x1", "--log-every", 20, *flags), stdout=subprocess.PIPE, text=True)
    for line in training.stdout:
        if '"event":"step"' in line.replace(" ", ""):
            break
    of_servers = [pid for name, pid in servers.children(training).items() if name.startswith("server")]
    status = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in of_servers]
    training.terminate()
    training.communicate(timeout=servers.SECONDS)
    check(len(status) == n_servers, f"{len(status)} servers of {n_servers}")
    return max(int(re.search(r"RssAnon:\s*(\d+)", one)[1]) / 1024 for one in status)


for flags in (("--staleness", 0), ()):
    one, two = memory(1, *flags), memory(2, *flags)
    check(one > TABLE_MIB and two < one - TABLE_MIB / 3, f"of {TABLE_MIB:.0f} MiB one server has {one:.0f}, each of two {two:.0f}")
    print(f"{flags}: of {TABLE_MIB:.0f} MiB one server has {one:.0f} MiB, each of two {two:.0f}")
finish()
