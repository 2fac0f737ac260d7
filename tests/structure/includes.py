"""The floors hold: who may include whom, no circles of files or of folders, no file too long.

    base, abi -> libc        ir -> base, abi        runtime -> base, abi        frontends -> base, abi, ir        compiler -> all but runtime
    passes include neither each other nor a code generator; code generators do not include each other; a vendor's headers have one place

With --self-check only, or before every real run: a tree with one violation of each rule is written, and each must be found.
"""
import pathlib
import re
import sys
import tempfile

MAY_INCLUDE = {
    "base": {"base", "include"},
    "abi": {"abi"},
    "include": {"include"},
    "ir": {"ir", "base", "abi"},
    "runtime": {"runtime", "base", "abi", "include"},
    "frontends": {"frontends", "base", "abi", "ir"},
    "compiler": {"compiler", "frontends", "base", "abi", "ir", "include"},
    "python": {"python", "include"},
    "tests": {"tests", "include", "compiler", "frontends", "runtime", "ir", "base", "abi"},
    "bench": {"bench", "include", "compiler", "frontends", "runtime", "ir", "base", "abi"},
}

VENDORS = (  # headers in <>, and the files that may include them
    (re.compile(r"llvm(-c)?/"), re.compile(r"compiler/codegen/llvm[^/]*$")),
    (re.compile(r"cu[a-z]*\.h$|cudnn|nvrtc"), re.compile(r"compiler/codegen/cuda_[^/]*$|runtime/devices/cuda/")),
    (re.compile(r"cjson/|minizip/|png\.h$|utf8proc\.h$|j(peglib|error)\.h$|(tensorboard|onnx)\.pb-c\.h$|zlib\.h$|nettle/"), re.compile(r"compiler/|runtime/|tests/|bench/")),
    (re.compile(r"mpi\.h$"), re.compile(r"runtime/comm/mpi/plugin\.c$|bench/processes_")),
    (re.compile(r"zmq\.h$"), re.compile(r"runtime/ps/zeromq\.h$")),
    (re.compile(r"cmocka\.h$"), re.compile(r"tests/")),
)

SOURCES = {".c", ".h", ".def", ".cpp", ".cu"}
LIMITED = SOURCES | {".dt", ".py", ".sh", ".cmake"}
MOST_LINES = 1000
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def same_group(header, path):
    """Whether two files are parts of one concept: the names begin with the same word (autodiff.h, autodiff_rules.c)."""
    return pathlib.PurePath(header).stem.split("_")[0] == pathlib.PurePath(path).stem.split("_")[0]


def forbidden(path, header):
    """Why `path` may not include "header", or None. Both are relative to the root."""
    folder, target = path.split("/")[0], header.split("/")[0]
    if target not in MAY_INCLUDE.get(folder, set()):
        return f"{folder}/ may not include {target}/"
    passes, codegen = "compiler/passes/", "compiler/codegen/"
    if path.startswith(passes) and header.startswith(codegen):
        return "a pass may not include a code generator"
    if header in (passes + "passes.h", codegen + "codegen.h") or same_group(header, path):
        return None  # what all passes, or all code generators, have in common
    if path.startswith(passes) and header.startswith(passes):
        return "a pass may not include another pass"
    if path.startswith(codegen) and header.startswith(codegen):
        return "a code generator may not include another"
    return None


def by_folder(includes):
    """{folder: [folders that its files include from]}; what lies directly in a folder is one with it, what lies deeper is not."""
    found = {}
    for path, headers in includes.items():
        folder = str(pathlib.PurePath(path).parent)
        found.setdefault(folder, set()).update(str(pathlib.PurePath(header).parent) for header in headers)
    return {folder: sorted(targets - {folder}) for folder, targets in found.items()}


def circles(includes):
    """The circular chains of `includes`: {file: [files]}."""
    found, done = [], set()

    def visit(path, chain):
        if path in chain:
            found.append(" -> ".join(chain[chain.index(path):] + [path]))
        elif path not in done:
            for header in includes.get(path, ()):
                visit(header, chain + [path])
            done.add(path)

    for path in sorted(includes):
        visit(path, [])
    return found


def violations(root):
    found, includes = [], {}
    files = [path for folder in (*MAY_INCLUDE, "scripts", "cmake", "examples") for path in sorted((root / folder).rglob("*")) if path.is_file()]
    for file in files:
        path = file.relative_to(root).as_posix()
        if file.suffix not in LIMITED or "/." in path:  # what is installed lies in hidden folders: bench/peers/.venv
            continue
        text = file.read_text()
        n_lines = text.count("\n")
        if n_lines > MOST_LINES:
            found.append(f"{path}: {n_lines} lines, at most {MOST_LINES}: look for the two concepts in it")
        if file.suffix not in SOURCES:
            continue
        for bracket, header in INCLUDE.findall(text):
            if bracket == "<":
                found += [f"{path}: <{header}> is included only by files that match {place.pattern}"
                          for vendor, place in VENDORS if vendor.match(header) and not place.match(path)]
                continue
            if path.startswith("include/"):
                header = "include/" + header  # they are installed beside one another
            if not (root / header).is_file():
                found.append(f'{path}: "{header}" is not a path from the root')
                continue
            why = forbidden(path, header)
            if why:
                found.append(f'{path}: "{header}": {why}')
            includes.setdefault(path, []).append(header)
    of_files = circles(includes)
    of_folders = [] if of_files else circles(by_folder(includes))  # a circle of files may be one of folders
    return found + [f"circular: {chain}" for chain in of_files + of_folders]


GOOD = {
    "bench/peers/.venv/installed.c": '#include "Python.h"\n',
    "base/status.h": "#include <stddef.h>\n",
    "abi/launch.h": "#include <stdint.h>\n",
    "ir/graph.h": '#include "base/status.h"\n#include "abi/launch.h"\n',
    "frontends/dsl/parser.h": '#include "ir/graph.h"\n',
    "compiler/passes/fuse.h": '#include "frontends/dsl/parser.h"\n',
    "compiler/passes/fuse.c": '#include "compiler/passes/fuse.h"\n',
    "compiler/codegen/codegen.h": "",
    "compiler/codegen/llvm.h": '#include <llvm-c/Core.h>\n#include "compiler/codegen/codegen.h"\n',
    "compiler/codegen/llvm_loops.c": '#include "compiler/codegen/llvm.h"\n',
    "compiler/codegen/cuda.h": "",
    "runtime/artifact.c": '#include "base/status.h"\n#include <zlib.h>\n',
    "runtime/devices/device.h": "",
    "runtime/run.h": '#include "runtime/devices/device.h"\n',
}

PLANTED = (  # each breaks one rule of the good tree, and what is said of it
    ("base/bad.c", '#include "ir/graph.h"\n', "base/ may not include ir/"),
    ("base/bad.c", "#include <zlib.h>\n", "<zlib.h> is included only by"),
    ("abi/bad.h", '#include "base/status.h"\n', "abi/ may not include base/"),
    ("ir/bad.c", '#include "frontends/dsl/parser.h"\n', "ir/ may not include frontends/"),
    ("frontends/bad.c", '#include "compiler/passes/fuse.h"\n', "frontends/ may not include compiler/"),
    ("runtime/bad.c", '#include "ir/graph.h"\n', "runtime/ may not include ir/"),
    ("compiler/bad.c", "#include <llvm-c/Core.h>\n", "<llvm-c/Core.h> is included only by"),
    ("compiler/passes/bad.c", '#include "compiler/passes/fuse.h"\n', "a pass may not include another pass"),
    ("compiler/passes/bad.c", '#include "compiler/codegen/llvm.h"\n', "a pass may not include a code generator"),
    ("compiler/codegen/cuda_bad.c", '#include "compiler/codegen/llvm.h"\n', "a code generator may not include another"),
    ("compiler/passes/bad.c", '#include "bad.h"\n', '"bad.h" is not a path from the root'),
    ("base/status.h", '#include "base/status.h"\n', "circular: base/status.h -> base/status.h"),
    ("runtime/devices/bad.c", '#include "runtime/run.h"\n', "circular: runtime -> runtime/devices -> runtime"),
    ("base/long.c", "\n" * (MOST_LINES + 1), "base/long.c: 1001 lines"),
)


def write_tree(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def self_check():
    with tempfile.TemporaryDirectory() as folder:
        write_tree(pathlib.Path(folder), GOOD)
        assert violations(pathlib.Path(folder)) == [], violations(pathlib.Path(folder))
    for path, text, said in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            write_tree(pathlib.Path(folder), {**GOOD, path: text})
            found = violations(pathlib.Path(folder))
            assert any(said in line for line in found), f"{path}: {text.strip()}: {found}, not: {said}"


def main():
    self_check()
    found = [] if sys.argv[1:] == ["--self-check"] else violations(pathlib.Path(__file__).resolve().parents[2])
    print("\n".join(found) or "the floors hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
