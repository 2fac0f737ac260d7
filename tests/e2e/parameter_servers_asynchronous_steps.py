"""Asynchronous training of steps with two updates. Where examples go through what an update with slots has changed before, however small it is and whatever
has been computed of it meanwhile, the step is refused; where they do not, or the update has no slots, one worker leaves the bytes of one process. So it
does where sums over large weights, which servers could share out, come before the examples."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import servers
from training import Run, check, command, finish, subprocess

BATCH = 24
TEXT = """
use nn, losses, optimizers

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

layer mix(x: f32[B, 6]) -> f32[B] {
    param weight: f32[6] = normal(stddev: 0.5)
    return sum(x * softmax(weight)[newaxis, :], axis: 1)
}

model First(x: f32[B, 6]) -> f32[B] { return mix(x) }
model Second(x: f32[B, 6]) -> f32[B] { return mix(x) }

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = square(First(a) - b[:, 0])
    minimize(loss, OPTIMIZER)
    other = square(Second(a) - OTHER)
    minimize(other, OPTIMIZER, over: params(Second))
    report loss: mean(loss), greatest: mean(other)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(square(First(a) - Second(a)))
}
"""


def case(name, optimizer, other):
    return layouts.Case(name, TEXT.replace("OPTIMIZER", optimizer).replace("OTHER", other), BATCH)


def kernels(case):
    """Those of the step's second segment, as dtc prints them."""
    call = ["dtc", "compile", case.artifact.with_suffix(".dt"), "--batch", str(BATCH), "--emit=plan"]
    plan = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    return plan.split("\ntrain: ")[1].split("segment 1")[1].split("segment 2")[0]


# What the first model's weight, of 6 elements, has become reaches the examples as its softmax, which is computed once.
late = case("late", "adam(0.01)", "First(a)")
second = kernels(late)
check("device" in second and "replica" in second, f"nothing is computed of an updated weight once, and then for the examples:\n{second}")
call = command("train", late.artifact, *late.flags(1), "--local-servers", 1, "--workers", 1, "--devices", "cpu:1x1")
done = subprocess.run(call, capture_output=True, text=True, timeout=servers.SECONDS)
words = "step train needs its worker after an update has begun, for what is computed of the examples then: train it with --staleness 0"
check(done.returncode == 1 and done.stderr.count("error: ") == 1 and words in done.stderr, f"exit status {done.returncode}, not '{words}':\n{done.stderr}")

# The second model needs a sum over all examples, and nothing that the update before has changed; or an update has no slots.
apart, plain = case("apart", "adam(0.01)", "stop_gradient(mean(loss))"), case("plain", "sgd(0.05)", "First(a)")
second = kernels(plain)
check("update" in second and "replica" in second, f"no update is before examples:\n{second}")

LARGE = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

model Net(x: f32[B, 6]) -> f32[B] {
    x = dense(x, units: 200, activation: tanh)
    param weight: f32[200, 150] = truncated_normal(stddev: 0.1)
    return sum(tanh(x @ (weight / sqrt(sum(square(weight))))), axis: 1)
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = square(Net(a) - b[:, 0])
    longest = max(abs(Net.weight))
    minimize(loss, OPTIMIZER)
    AGAIN
    report loss: mean(loss), greatest: last(longest)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set { report loss: mean(square(Net(a) - b[:, 0])) }
"""
sums = layouts.Case("sums", LARGE.replace("OPTIMIZER", "adam(0.01)").replace("AGAIN", ""), BATCH)
again = layouts.Case("again", LARGE.replace("OPTIMIZER", "sgd(0.01)").replace("AGAIN", "minimize(square(Net(a) - b[:, 1]), sgd(0.01))"), BATCH)
# Statistics of a batch, of so many features that servers share out what takes them later: the update of gamma, which has slots.
NORMED = LARGE.replace("dense(x, units: 200, activation: tanh)", "batch_norm(dense(x, units: 1030, activation: tanh))")
NORMED = NORMED.replace("f32[200, 150]", "f32[1030, 150]").replace("(weight / sqrt(sum(square(weight))))", "weight")
normed = layouts.Case("normed", NORMED.replace("OPTIMIZER", "adam(0.01)").replace("AGAIN", ""), BATCH)
for one in apart, plain, sums, again, normed:
    servers.agrees(one, layouts.train_one(one, 1), 1, 2, 1, staleness=None)

# A launch value that falls between epochs, and goes through examples.
LAUNCHED = "launch part = 0.5\n" + TEXT.replace("report loss", "report part: last(part), loss")
falling = layouts.Case("falling", LAUNCHED.replace("OPTIMIZER", "sgd(0.05)").replace("OTHER", "part * b[:, 0]"), BATCH)
flags = ["--epochs", 5, "--reduce-on-plateau", "train.part:part,patience=0"]
one, leased = servers.new_folder(), servers.new_folder()
said = Run("train", falling.artifact, *falling.flags(1), "--devices", "cpu:1x1", "--seed", 3, "--checkpoint-dir", one, *flags).error
check("launch value part is 0.05 from epoch 3 on" in said, said)
servers.train(falling, 1, 2, 1, leased, *flags, staleness=None)
check(layouts.left_by(leased) == layouts.left_by(one), "a worker computes with a launch value of before")
finish()
