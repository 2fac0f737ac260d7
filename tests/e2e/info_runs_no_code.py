"""`dtrun info` runs nothing of an artifact, nor does opening it: one whose code is nothing but traps, with sums that fit, is described like the one that
it was made of. That the code would end the process, `dtrun train` shows."""
import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
EXECUTABLE = 0x4  # SHF_EXECINSTR
TRAP = b"\xcc"    # int3


def with_traps(code):
    """An object of the same size, whose functions trap at each byte."""
    code = bytearray(code)
    table, = struct.unpack_from("<Q", code, 0x28)
    size, n = struct.unpack_from("<HH", code, 0x3a)
    found = 0
    for at in range(table, table + n * size, size):
        _, _, flags, _, offset, n_bytes, *_ = SECTION.unpack_from(code, at)
        if flags & EXECUTABLE:
            code[offset:offset + n_bytes] = TRAP * n_bytes
            found += n_bytes
    check(found > 1000, "the object has no code")
    return bytes(code)


def rewrite(path, changed):
    """Writes the artifact `path` with the code of `changed(code)`, and sums of what it writes."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    for entry in manifest["objects"]:
        members[entry["file"]] = changed(members[entry["file"]])
        entry["sha256"] = hashlib.sha256(members[entry["file"]]).hexdigest()
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def run(*words):
    return subprocess.run(["dtrun", *map(str, words)], capture_output=True, text=True)


data, program = write_data(), compile_program()
expected = run("info", program)
check(expected.returncode == 0, expected.stderr)
rewrite(program, lambda code: code)
check(run("train", program, "--data", data, "--max-steps", 1).returncode == 0, "an artifact that was packed anew does not run")
rewrite(program, with_traps)
for arguments in ("info", program), ("info", program, "--text", "program.dt"), ("info", program, "--processes", 2, "--replicas", 2):
    done = run(*arguments)
    check(done.returncode == 0, f"{arguments}: {done.returncode} {done.stderr}")
check(run("info", program).stdout == expected.stdout, "dtrun info says something else")
module = pathlib.Path(os.environ["DT_BUILD"], "python")  # opens it by dtrt_open
if (module / "dt").exists():
    opened = subprocess.run([sys.executable, "-c", "import dt, sys; print(*dt.open(sys.argv[1]).steps)", program], capture_output=True, text=True,
                            env=dict(os.environ, PYTHONPATH=str(module)))
    check(opened.stdout == "train evaluate predict\n", f"dt.open: {opened.returncode} {opened.stderr}")
trained = run("train", program, "--data", data, "--max-steps", 1)
check(trained.returncode in (-signal.SIGTRAP, -signal.SIGSEGV), f"its code was to end the process: {trained.returncode} {trained.stderr}")
finish()
