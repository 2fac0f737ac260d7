"""Fashion-MNIST with three workers, of which one is killed every 5 seconds and started again, and two servers, each of which is killed once: after 5 epochs the
accuracy is at least 0.88, and each batch of each epoch was applied once."""
import collections
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import ledger
import servers
from training import Run, check, finish

DATA = os.environ.get("DT_DATA", "/usr/share/datasets/fashion-mnist")
EPOCHS, BATCHES, BETWEEN_SECONDS, LEAST = 5, -(-60000 // 64), 5, 0.88
servers.SECONDS = 1700
case = layouts.Case("cnn", (pathlib.Path(os.environ["DT_SOURCE"]) / "examples/fashion_cnn.dt").read_text(), 64)
case.data = DATA
flags = [*case.flags(1), "--devices", "cpu:1x1"]
folder, numbers, n_killed = servers.new_folder(), random.Random(1), collections.Counter()
began = time.monotonic()
run = servers.Process("train", case.artifact, *flags, "--seed", 3, "--checkpoint-dir", folder, "--checkpoint-every", 200, "--epochs", EPOCHS,
                      "--local-servers", 2, "--workers", 3, "--deadline", 120)


def kill(names):
    found = servers.children(run.process)
    for name in names:
        if name in found:
            os.kill(found[name], signal.SIGKILL)
            n_killed[name.split()[0]] += 1


def n_applied():
    return sum(b'"applied"' in line for line in open(folder / "ledger.jsonl", "rb"))


run.wait_for(lambda: (folder / "ledger.jsonl").exists(), "the first leases")
to_kill = [(0.6, "server 1"), (0.3, "server 0")]  # after which share of the run
while run.process.poll() is None:
    time.sleep(BETWEEN_SECONDS)
    kill([f"worker {numbers.randrange(3)}"])
    if to_kill and n_applied() > to_kill[-1][0] * EPOCHS * BATCHES:
        kill([to_kill.pop()[1]])
said = run.end(0)
seconds = time.monotonic() - began
counts = ledger.check_epochs(folder / "ledger.jsonl", EPOCHS, BATCHES)
lags = [line["lag"] for line in ledger.read(folder / "ledger.jsonl") if line["event"] == "applied"]
accuracy = Run("evaluate", case.artifact, *flags, "--checkpoint-dir", folder).one("epoch")["accuracy"]
print(f"{EPOCHS} epochs in {seconds:.0f} s, {n_killed['worker']} workers and {n_killed['server']} servers killed: {dict(counts)}, "
      f"lag {sum(lags) / len(lags):.1f} in the mean and {max(lags)} at most; accuracy {accuracy:.4f}")
check(n_killed["server"] == 2 and n_killed["worker"] >= 5 and accuracy >= LEAST, said[-3000:])
finish()
