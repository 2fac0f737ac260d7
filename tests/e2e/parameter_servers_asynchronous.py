"""Asynchronous training with parameter servers. One worker leaves the bytes of `dtrun train --replicas 1`: dropout, batch norm, a state, a schedule, a norm
over all gradients, updates with and without slots. With more of them each batch of each epoch is applied once, within the bound on its lag, and what an
evaluation says is what it says of the checkpoint: workers have the servers' variables. Any number of servers and workers goes on from any checkpoint."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import ledger
import servers
from training import PROGRAM, Run, check, finish, newest

BATCH, BATCHES = 16, 16  # rows, and of an epoch
SMALL = PROGRAM.replace("take(1000) | shuffle(1000) | batch(32)", f"shuffle(250) | batch({BATCH})")
CLIPPED = """apply(adamw(learning_rate: warmup(cosine_decay(0.01, steps: epochs * steps_per_epoch), steps: 5)),
          clip_by_global_norm(grad(objective(loss), params(Net)), 0.5))"""


def case(name, update="minimize(loss, adam(learning_rate: 1e-3))"):
    text = SMALL.replace("use nn", "use nn, schedules").replace("minimize(loss, adam(learning_rate: 1e-3))", update)
    check(update in text, name)
    made = layouts.Case(name, text, 2 * BATCH, inputs=["test-images"])  # what it may hold: an evaluation's batch
    made.batch = BATCH
    return made


def options_of(case):
    return [*case.flags(1), "--devices", "cpu:1x1"]


def train(case, n_servers, n_workers, folder, *flags, **more):
    return servers.train(case, 1, n_servers, n_workers, folder, *flags, **{"staleness": None, **more})


def last_evaluation(events):
    return [layouts.said([event])[0]["loss"] for event in events if event["event"] == "epoch" and event["step"] == "evaluate"][-1]


def stands(folder, n_epochs, **more):
    return ledger.check_epochs(folder / "ledger.jsonl", n_epochs, BATCHES, **more)


adam, sgd = case("adam"), case("sgd", "minimize(loss, sgd(learning_rate: 0.05))")
resnet = layouts.resnet()  # whose kernels update some parameters, and compute gradients of others
resnet.predicts = False
wanted = {}
for one in adam, sgd, case("clipped", CLIPPED), resnet:
    wanted[one.name] = layouts.train_one(one, 1)
    for n_servers in 1, 2:
        servers.agrees(one, wanted[one.name], 1, n_servers, 1, staleness=None)

# Three workers.
for one in adam, sgd:
    folder = servers.new_folder()
    events = train(one, 2, 3, folder, "--epochs", 2)
    stands(folder, 2)
    evaluated = Run("evaluate", one.artifact, *options_of(one), "--checkpoint-dir", folder)
    check(last_evaluation(events) == evaluated.one("epoch")["loss"], f"{one.name}: workers evaluate other variables than those of the checkpoint: {events}")

# The bound on the lag. At 1 there are two at a time, and the others wait.
for staleness in 1, 2:
    folder = servers.new_folder()
    train(adam, 2, 4, folder, "--epochs", 3, staleness=staleness)
    stands(folder, 3, most_lag=staleness)

# In mid-epoch, with other servers and workers each time, and at the end without any.
folder = servers.new_folder()
train(adam, 1, 3, folder, "--epochs", 3, "--max-steps", 5, "--checkpoint-every", 2)
check({path.name for path in folder.glob("step-*")} >= {"step-4", "step-5"}, f"barriers: {sorted(path.name for path in folder.iterdir())}")
train(adam, 2, 2, folder, "--epochs", 3, "--max-steps", 20, "--resume")
train(adam, 3, 1, folder, "--epochs", 2, "--resume")
stands(folder, 2)
Run("train", adam.artifact, *options_of(adam), "--seed", 3, "--checkpoint-dir", folder, "--epochs", 3, "--resume")
check(newest(folder).name == "step-48", f"{newest(folder)}")

# By one worker at a time it is the same training as by one process; that worker may be another one each time.
folder = servers.new_folder()
train(adam, 2, 1, folder, "--epochs", 2, "--max-steps", 7)
train(adam, 1, 1, folder, "--epochs", 2, "--max-steps", BATCHES, "--resume")
train(adam, 2, 1, folder, "--epochs", 2, "--resume")
check(layouts.left_by(folder) == wanted["adam"][0], "workers, one after the other, leave other bytes than one process")
stands(folder, 2)


# What does not go with it.
def refused(text, words, *flags):
    one = layouts.Case("refused", text, BATCH) if text is not None else adam
    events = Run("train", one.artifact, *options_of(one), "--local-servers", 2, "--workers", 2, *flags, expect=None, seconds=servers.SECONDS)
    is_once = events.code in (1, 2) and events.error.count("error: ") <= 1 and words in events.error
    check(is_once, f"exit status {events.code}, not once '{words}':\n{events.error}")


refused(SMALL.replace("report loss: mean(loss), ", "report after: mean(sparse_categorical_crossentropy(label, Net(image))), ", 1),
        "worker after an update has begun")
finish()
