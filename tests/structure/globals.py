"""No mutable global state: what the libraries' objects have in writable sections is named here, with its reason.

Constant tables of pointers stand in .data.rel.ro, which is read-only once a program is loaded. A variable of the check's own must be found, too.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["DT_BUILD"])
LIBRARIES = ("base/libdt_base.a", "ir/libdt_ir.a", "frontends/libdt_frontends.a", "compiler/libdt_compiler.a", "compiler/libdt_api.a",
             "compiler/libdt_commands.a", "runtime/libdt_runtime.a", "runtime/libdt_run_commands.a")
ALLOWED = {
    ("memory.c", "n_left"): "how many allocations are left, for tests",
    ("memory.c", "once"): "whether one of them fails or all from there on, for tests",
    ("op.c", "rows"): "the op table, filled in once",
    ("op.c", "storages"): "the op table, filled in once",
    ("op.c", "by_name"): "the op table, filled in once",
    ("op.c", "once"): "whether it has been",
    ("supervisor.c", "asked_by"): "the signal that asked processes of this machine to end",
    ("supervisor.c", "n_asked"): "how many signals have done so",
    ("llvm.c", "once"): "whether LLVM's registry of targets, which is the process's, has been filled in",
}
WRITABLE = re.compile(r"\.(data|bss|tdata|tbss)(?!\.rel\.ro)|\*COM\*")
OBJECT = re.compile(r"(\S+)\.o:\s+file format")
SYMBOL = re.compile(r"[0-9a-f]+ .{7} (\S+)\t[0-9a-f]+ +(?:\.hidden )?(\S+)$")


def mutable(file):
    """{(source, name)} of the variables in writable sections of an object or a library; a number after a static's name is the compiler's."""
    found, source = set(), ""
    listed = subprocess.run(["objdump", "-t", file], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        if match := OBJECT.search(line):
            source = pathlib.Path(match[1]).name
        elif (match := SYMBOL.match(line)) and WRITABLE.match(match[1]) and not match[2].startswith((".", "__")):  # a section, a sanitizer's
            found.add((source, match[2].split(".")[0]))
    return found


def finds_its_own():
    """What must be found, and what must not be."""
    text = """static int counter; int next(void) { static int calls; return counter++ + calls++; }
    const char *const names[] = {"a", "b"}; _Thread_local int mine; extern int others;"""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "own.c"
        source.write_text(text)
        subprocess.run(["cc", "-O2", "-fPIC", "-c", source, "-o", source.with_suffix(".c.o")], check=True)
        return mutable(source.with_suffix(".c.o")) == {("own.c", "counter"), ("own.c", "calls"), ("own.c", "mine")}


def main():
    if not finds_its_own():
        print("globals: variables of the check's own are not found")
        return 1
    found = {place for library in LIBRARIES for place in mutable(BUILD / library)}
    for source, name in sorted(found - ALLOWED.keys()):
        print(f"globals: {source}: {name} is mutable and lives as long as the process: pass it on instead, or say here why it must be")
    for source, name in sorted(ALLOWED.keys() - found):
        print(f"globals: {source}: there is no {name} any more: take it off the list")
    return 0 if found == ALLOWED.keys() else 1


sys.exit(main())
