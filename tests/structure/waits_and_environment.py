"""What ends after some time does so by the monotonic clock, which nobody sets; and no library changes the environment, which other threads of its host read."""
import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
PROGRAMS = "runtime/commands/", "compiler/command"  # a program of ours, before it has threads
BY_THE_DAY = re.compile(r"\bpthread_timedjoin_np\(|\bsem_timedwait\(|\bmtx_timedlock\(|\bpthread_mutex_timedlock\(")
ENVIRONMENT = re.compile(r"\b(?:setenv|unsetenv|putenv|clearenv)\(")


def wrong(name, text):
    if BY_THE_DAY.search(text):
        yield f"{name}: waits by the time of day: dt_thread_join"
    if "pthread_cond_timedwait(" in text and "pthread_condattr_setclock(" not in text:
        yield f"{name}: waits by the time of day: pthread_condattr_setclock"
    if ENVIRONMENT.search(text) and not name.startswith(PROGRAMS):
        yield f"{name}: a library changes the environment"


assert len(list(wrong("runtime/a.c", "pthread_timedjoin_np(x) setenv(y) pthread_cond_timedwait("))) == 3  # a mistake is found
found = [line for folder in ("base", "abi", "ir", "compiler", "runtime", "frontends") for file in sorted((SOURCE / folder).rglob("*.c"))
         for line in wrong(str(file.relative_to(SOURCE)), file.read_text())]
if found:
    sys.exit("\n".join(found))
