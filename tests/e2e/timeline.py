"""dtrun --timeline of one process: a trace whose spans nest, with the kernels of the plan, the data, the checkpoints, of the last steps; also of a run
that a signal or an error ended. The training is the same."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from timeline import *  # noqa: E402,F403
from training import *  # noqa: E402,F403

data, program = write_data(), compile_program()
FLAGS = ("--data", data, "--replicas", 2, "--devices", "cpu:2x1")
path = FOLDER / "trace.json"

Run("train", program, *FLAGS, "--epochs", 2, "--checkpoint-dir", FOLDER / "plain", "--checkpoint-every", 10)
run = Run("train", program, *FLAGS, "--epochs", 2, "--checkpoint-dir", FOLDER / "ck", "--checkpoint-every", 10, "--timeline", path)
check(bits(FOLDER / "ck") == bits(FOLDER / "plain"), "the bits differ")
check(f"dtrun: note: timeline {path}: the last 40 of 40 steps" in run.error, run.error)
trace = Timeline(path)
check(trace.about == {"program": "net", "processes": 1, "steps_kept": 40, "steps_run": 40, "clock_error_microseconds": 0}, trace.about)
check(trace.steps() == {"train": 32, "evaluate": 8}, trace.steps())
check([e["args"]["step"] for e in trace.of("step", function="train")] == list(range(1, 33)), "numbers of steps")
check_kernels(trace, program, 2, 32, 2)
threads = [name for _, name in sorted(trace.threads.items())]
check(threads == ["main", "data train_set, thread 0", "data test_set, thread 0", "executor 0, cpu:0", "executor 1, cpu:1", "checkpoints"], threads)
check([e["args"]["batch"] for e in trace.of("data", data="train_set")] == 2 * list(range(1, 17)), trace.of("data", data="train_set"))
written = [e["args"] for e in trace.of("checkpoint") if e["name"] == "write checkpoint"]
copied = [e["args"] for e in trace.of("checkpoint") if e["name"] == "copy variables"]
check([a["step"] for a in written] == [10, 16, 20, 30, 32] and written == copied and all(a["bytes"] > 4 * 144 * 32 for a in written), (written, copied))
check({e["name"].split(" (")[0] for e in trace.of("wait")} >= {"barrier", "wait for data"}, "waits")

# kernels lie in their step, on every executor
whole = {(e["name"], e["args"]["step"]): e for e in trace.of("step", function="train")}
for e in trace.of("kernel", function="train"):
    step = whole["train", e["args"]["step"]]
    check(step["began"] <= e["began"] and e["ended"] <= step["ended"], (e, step))

# the last steps alone
Run("train", program, *FLAGS, "--epochs", 2, "--max-steps", 28, "--timeline", path, "--timeline-steps", 5)
trace = Timeline(path)
check((trace.about["steps_kept"], trace.about["steps_run"]) == (5, 32) and trace.steps() == {"train": 5}, trace.about)
check({e["args"]["step"] for e in trace.of("kernel")} == {24, 25, 26, 27, 28}, "which steps")
check_kernels(trace, program, 2, 32, 2)

# evaluation
Run("evaluate", program, *FLAGS, "--checkpoint-dir", FOLDER / "ck", "--timeline", path)
trace = Timeline(path)
check(trace.steps() == {"evaluate": 4}, trace.steps())
check_kernels(trace, program, 2, 32, 2)

# ended by a signal
path.unlink()
process = subprocess.Popen(command("train", program, *FLAGS, "--epochs", 10 ** 6, "--log-every", 1, "--timeline", path), stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True)
for line in process.stdout:
    if '"number":20' in line:
        process.send_signal(signal.SIGTERM)
        break
ends = next(e for e in map(json.loads, process.stdout) if e["event"] == "end")
process.stdout.read()
check(process.wait() == 128 + signal.SIGTERM and ends["reason"] == "signal", ends)
trace = Timeline(path)
check(trace.of("step", function="train")[-1]["args"]["step"] == ends["steps"], ends)
check_kernels(trace, program, 2, 32, 2)

# ended by an error: the step that failed is there
path.unlink()
wrong = compile_program(PROGRAM.replace("f32(image) / 255", "log(f32(image) - 300)"), "wrong")
failed = Run("train", wrong, *FLAGS, "--timeline", path, expect=1)
check("not a number" in failed.error and f"note: timeline {path}: the last 1 of 1 step" in failed.error, failed.error)
check(Timeline(path).steps() == {"train": 1}, "the step that failed")

# what cannot be written is known before the first step
refused = Run("train", program, *FLAGS, "--timeline", FOLDER / "none" / "trace.json", expect=1)
check("none/trace.json: cannot write to its folder: No such file or directory" in refused.error and not refused.events, refused.error)
refused = Run("train", program, *FLAGS, "--timeline-steps", 5, expect=2)
check("--timeline-steps needs --timeline" in refused.error, refused.error)
refused = Run("train", program, *FLAGS, "--timeline", path, "--timeline-steps", 10 ** 18, expect=1)
check("use fewer --timeline-steps" in refused.error, refused.error)
finish()
