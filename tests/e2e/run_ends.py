"""How a run ends that is not let run to its end: signals, an output that nobody reads or that is full, a limit on the size of files. What there is to
save is saved, the exit status says why, and the run goes on from there with the bits of one that was never stopped."""
import os
import resource
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

data, program = write_data(), compile_program()
FLAGS = ("--data", data, "--epochs", 50, "--log-every", 1)
SECONDS = 60  # nothing here takes so long
PIPE = subprocess.PIPE


def start(*arguments, **options):
    return subprocess.Popen(list(map(str, arguments)), text=True, **{"stdout": PIPE, "stderr": PIPE, **options})


def wait_for(process, words):
    for line in process.stdout:
        if words in line:
            return
    fail(f"the run ended before it said {words}: {process.stderr.read()}")


def ended(process):
    """Events, what was said and the exit status."""
    out = process.stdout.read()  # communicate() would not see what wait_for read ahead
    error = process.stderr.read()
    process.wait(timeout=SECONDS)
    return [json.loads(line) for line in out.splitlines()], error, process.returncode


def goes_on(folder, what):
    """Resumed, it ends with the bits of the run that was never stopped."""
    first = int(newest(folder).name[5:])
    Run("train", program, "--data", data, "--max-steps", 80, "--checkpoint-dir", folder, "--resume")
    check(0 < first <= 80 and bits(folder) == wanted, f"{what}: stopped at {first}, resumed: {bits(folder)}, uninterrupted: {wanted}")


Run("train", program, "--data", data, "--max-steps", 80, "--checkpoint-dir", FOLDER / "whole")
wanted = bits(FOLDER / "whole")

# a terminal that is closed says SIGHUP twice: by the kernel and by the shell
folder = FOLDER / "hangup"
process = start(*command("train", program, "--checkpoint-dir", folder, *FLAGS))
wait_for(process, '"number":20')
process.send_signal(signal.SIGHUP)
process.send_signal(signal.SIGHUP)
check(ended(process)[2] == 128 + signal.SIGHUP, "two hangups")
goes_on(folder, "two hangups")

# what was told to ignore a signal ignores it: nohup
process = start("nohup", *command("train", program, "--data", data, "--epochs", 3, "--log-every", 1))
wait_for(process, '"number":20')
process.send_signal(signal.SIGHUP)
check(ended(process)[2] == 0, "nohup")

# a reader that goes away
folder = FOLDER / "pipe"
process = start(*command("train", program, "--checkpoint-dir", folder, *FLAGS))
wait_for(process, '"number":20')
process.stdout.close()
error = process.stderr.read()
check(process.wait(SECONDS) == 1 and "error: cannot write to standard output: Broken pipe; the training ended after step " in error, error)
check(error.count("error") == 1 and "--resume goes on from there" in error, error)
goes_on(folder, "a closed pipe")

# a disk that is full from the beginning: nothing is begun
folder = FOLDER / "full"
with open("/dev/full", "w") as full:
    process = start(*command("train", program, "--checkpoint-dir", folder, *FLAGS), stdout=full)
    error = process.stderr.read()
    check(process.wait(SECONDS) == 1 and "cannot write to standard output: No space left on device; the training ended after step 0" in error, error)
    check(newest(folder) is None, "there was nothing to save")
    for arguments in (command("evaluate", program, "--data", data, "--checkpoint-dir", FOLDER / "whole"),
                      command("predict", program, "--input", data / "test-images", "--output", FOLDER / "out", "--checkpoint-dir", FOLDER / "whole"),
                      ["dtrun", "info", program], ["dtrun", "devices"], ["dtrun", "train", "--help"], ["dtrun", "--help"],
                      ["dtrun", "bench", program, "--steps", "1", "--json"]):
        process = start(*arguments, stdout=full)
        error = process.stderr.read()
        check(process.wait(SECONDS) == 1 and "dtrun: error: cannot write to standard output" in error, (arguments, error))
    check((FOLDER / "out/label.npy").exists() and (FOLDER / "out/probability.npy").exists(), "results are written though nobody reads of them")

# a closed output is no place for lines, and none of them gets into a file that is opened in its place
folder = FOLDER / "closed"
process = start("sh", "-c", 'exec "$@" >&-', "sh", *command("train", program, "--data", data, "--max-steps", 5, "--checkpoint-dir", folder))
error = process.stderr.read()
check(process.wait(SECONDS) == 1 and "cannot write to standard output: Bad file descriptor" in error, error)

# a limit on the size of files is an error that names the file, not the end of the process
folder = FOLDER / "limited"
process = start(*command("train", program, "--data", data, "--max-steps", 5, "--checkpoint-dir", folder),
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
events, error, code = ended(process)
check(code == 1 and f"{folder}/.unfinished-5/model.safetensors: cannot write: File too large" in error, (code, error))
check(events[-1]["event"] == "epoch" and newest(folder) is None, events)

# the first checkpoint cannot be written: the run ends at the next step, or soon after
process = start(*command("train", program, "--checkpoint-dir", FOLDER / "limited", "--checkpoint-every", 1, *FLAGS),
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
events, error, code = ended(process)
check(code == 1 and f"{FOLDER}/limited/.unfinished-1/model.safetensors: cannot write: File too large" in error, (code, error))
check(2 <= len(events) <= 4 and newest(FOLDER / "limited") is None, events)

# in the middle of evaluation: the step is saved, and the evaluation is done again
LONG = PROGRAM.replace('"test-labels")', '"test-labels") | repeat(100000)')
long = compile_program(LONG, "long")
folder = FOLDER / "evaluation"
process = start(*command("train", long, "--data", data, "--checkpoint-dir", folder))
wait_for(process, '{"event":"epoch","step":"train"')
process.send_signal(signal.SIGTERM)
events, error, code = ended(process)
check(code == 128 + signal.SIGTERM and [e["event"] for e in events] == ["checkpoint", "end"] and events[1]["reason"] == "signal", (code, events, error))
check(newest(folder).name == "step-32", newest(folder))

# the command, of which nothing is left but what it said
process = start(*command("evaluate", long, "--data", data, "--checkpoint-dir", folder))
wait_for(process, '"start"')
time.sleep(0.2)
process.send_signal(signal.SIGINT)
events, error, code = ended(process)
check(code == 128 + signal.SIGINT and [e["event"] for e in events] == ["epoch", "end"], (code, events, error))
check(not events[0]["complete"] and events[0]["steps"] > 0 and events[1]["reason"] == "signal", events)

# while it waits for data: a batch takes much longer than the end
SLOW = PROGRAM.replace("| take(1000)", "| map(slow)").replace("data train_set", """
fn slow(image: u8[12, 12], label: u8) {
    x = normal([400, 400])
    for i in 0..20 { x = tanh(x @ x) }
    return where(x[:12, :12] > 2.0, u8(0), image), label
}

data train_set""")
slow = compile_program(SLOW, "slow")
folder = FOLDER / "slow"
process = start(*command("train", slow, "--data", data, "--checkpoint-dir", folder, "--log-every", 1))
wait_for(process, '"start"')
began = time.monotonic()
wait_for(process, '"number":1,')
seconds = time.monotonic() - began
process.send_signal(signal.SIGTERM)
began = time.monotonic()
events, error, code = ended(process)
check(code == 128 + signal.SIGTERM and newest(folder) is not None, (code, events, error))
check(time.monotonic() - began < seconds / 2, f"a batch took {seconds:.1f} s, the end {time.monotonic() - began:.1f}")
finish()
