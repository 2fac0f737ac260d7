"""Workers and servers of an asynchronous training are killed and stopped at random moments, some dozen of them in a few seconds, until it is asked to end. It goes
on to the end of its epoch: each batch of each epoch is applied once, and the model is the checkpoint's, by whose evaluation one can tell it from noise."""
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import ledger
import servers
from training import PROGRAM, Run, check, finish

BATCH, BATCHES, FAULTY_SECONDS = 16, 16, 8
MOST_SECONDS = 60  # until a worker was lost with a lease
MOST_EPOCHS = 100_000  # more than there will be, however quick the machine
case = layouts.Case("net", PROGRAM.replace("take(1000) | shuffle(1000) | batch(32)", f"shuffle(250) | batch({BATCH})"), 32)
case.batch = BATCH
flags = [*case.flags(1), "--devices", "cpu:1x1"]
folder, numbers, done = servers.new_folder(), random.Random(1), []


def train(n_epochs, *more):
    return servers.Process("train", case.artifact, *flags, "--seed", 3, "--checkpoint-dir", folder, "--checkpoint-every", 40, "--epochs", n_epochs,
                           "--local-servers", 2, "--workers", 3, "--deadline", 60, *more)


def has_returned():
    return '"event":"returned"' in (folder / "ledger.jsonl").read_text()


run = train(MOST_EPOCHS)
run.wait_for(lambda: (folder / "ledger.jsonl").exists(), "the first leases")
began = time.monotonic()
while time.monotonic() < began + (FAULTY_SECONDS if has_returned() else MOST_SECONDS) and run.process.poll() is None:
    time.sleep(numbers.uniform(0, 0.6))
    name, victim = numbers.choice(sorted(servers.children(run.process).items()) or [(None, None)])
    if name is None or (name.startswith("server") and numbers.random() < 0.6):
        continue  # after a server all go back: of those fewer
    kills = numbers.random() < 0.7
    try:
        os.kill(victim, signal.SIGKILL if kills else signal.SIGSTOP)
        time.sleep(0 if kills else numbers.uniform(0, 0.8))
        os.kill(victim, signal.SIGCONT)
    except ProcessLookupError:
        continue
    done.append(f"{name} {'killed' if kills else 'stopped'}")
said = run.end(128 + signal.SIGTERM, signal.SIGTERM)
n_epochs = max([10] + [line["epoch"] for line in ledger.read(folder / "ledger.jsonl") if line["event"] == "applied"])
said += train(n_epochs, "--resume").end(0)
counts = ledger.check_epochs(folder / "ledger.jsonl", n_epochs, BATCHES)
check(len(done) > 5 and counts["returned"] > 0, f"too little has happened: {done}, {counts}\n{said}")
accuracy = Run("evaluate", case.artifact, *flags, "--checkpoint-dir", folder).one("epoch")["accuracy"]
check(accuracy > 0.6, f"accuracy {accuracy} after {done}\n{said}")
print(f"{', '.join(done)}: {dict(counts)}, accuracy {accuracy:.2f}")
finish()
