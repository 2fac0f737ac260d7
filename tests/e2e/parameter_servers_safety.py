"""What parameter servers do not take: bytes of strangers, keys that are not allowed, other artifacts, other settings. Each is refused and named, nobody is
harmed: the training that goes on beside it ends with the bytes of one process."""
import os
import random
import socket
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

FLAGS = ["--data", write_data(n=320, n_test=32), "--replicas", 2, "--devices", "cpu:1x1", "--seed", 3, "--max-steps", 6]
SERVES = [*FLAGS, "--staleness", 0]
WORKS = ["--data", FOLDER / "data", "--devices", "cpu:1x1"]
ours = compile_program(PROGRAM.replace("take(1000) | shuffle(1000)", "shuffle(320)"), "net")
other = compile_program(PROGRAM.replace("take(1000) | shuffle(1000)", "shuffle(320)").replace("0.2", "0.3"), "other")
wanted, ck = FOLDER / "wanted", FOLDER / "ck"
Run("train", ours, *FLAGS, "--checkpoint-dir", wanted)
for name in "keys", "stolen":
    subprocess.run(["dtrun", "keys", FOLDER / name], check=True, capture_output=True)
(FOLDER / "stolen/server.public").write_bytes((FOLDER / "keys/server.public").read_bytes())  # a worker that knows the servers, and is not known


def start(*words):
    return subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def refused(words, *command):
    """A process that does not belong to the run."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    check(done.returncode == 1 and words in done.stderr, f"{' '.join(map(str, command))}: exit status {done.returncode}, not '{words}':\n{done.stderr}")


def end(process, seconds=120):
    out, error = process.communicate(timeout=seconds)
    check(process.returncode == 0, f"exit status {process.returncode}:\n{out}{error}")
    return error


# Without keys no address beyond this machine.
refused("192.0.2.1:7000 is beyond this machine", "dtrun", "ps-server", ours, *SERVES, "--listen", "192.0.2.1:7000")
refused("192.0.2.1:7000 is beyond this machine", "dtrun", "ps-worker", ours, *WORKS, "--servers", "192.0.2.1:7000")

server = start("dtrun", "ps-server", ours, *SERVES, "--checkpoint-dir", ck, "--listen", "127.0.0.1:*", "--keys", FOLDER / "keys", "--deadline", 60)
said = server.stderr.readline()
address = said.rsplit(" ", 1)[-1].strip()
check(said.startswith("dtrun: note: server 0 of 1 listens on 127.0.0.1:"), said)

# Strangers: noise, requests of other protocols, greetings of ZeroMQ's that end in the middle or go on as noise.
numbers, held = random.Random(1), []
GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE" + bytes(48)
for i in range(40):
    noise = numbers.randbytes(numbers.randrange(1, 3000))
    sent = (noise, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", GREETING[:numbers.randrange(1, 64)], GREETING[:64] + noise)[i % 4]
    stranger = socket.create_connection(tuple(address.split(":")), 10)
    try:
        stranger.sendall(sent)
    except OSError:
        pass  # it has been shown the door
    held.append(stranger)

WORKER = "dtrun", "ps-worker"
refused("the key of this process is not one that the server allows", *WORKER, ours, *WORKS, "--servers", address, "--keys", FOLDER / "stolen")
refused("has not been there for", *WORKER, ours, *WORKS, "--servers", address, "--deadline", 2)  # without keys it hears nothing
refused("its artifact has the SHA-256", *WORKER, other, *WORKS, "--servers", address, "--keys", FOLDER / "keys")
end(start(*WORKER, ours, *WORKS, "--servers", address, "--keys", FOLDER / "keys"))
notes = end(server)
for words in "somebody who has connected: ", "somebody at 127.0.0.1 with the public key ", "its artifact has the SHA-256":
    check(words in notes, f"no '{words}' in\n{notes}")
check(bits(ck) == bits(wanted), "the training has other bits")

# Servers of one run are started alike.
first = start("dtrun", "ps-server", ours, *SERVES, "--listen", "127.0.0.1:*", "--part", "0/2", "--servers", "127.0.0.1:1,127.0.0.1:2")
address = first.stderr.readline().rsplit(" ", 1)[-1].strip()
refused("its settings are", "dtrun", "ps-server", ours, *SERVES, "--seed", 4, "--listen", "127.0.0.1:*", "--part", "1/2", "--servers", f"{address},127.0.0.1:2")
first.kill()
check("its settings are" in first.communicate()[1], "server 0 does not say whom it has refused")
finish()
