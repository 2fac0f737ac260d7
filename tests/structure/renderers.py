"""Renderers see plans and choices alone: no file of compiler/codegen includes the graph, what lowers it, or passes, or names a value, a function or a
module; and of a target's description none reads what choices are made by: costs, caches, numbers of registers.

Before it looks, planted lines that break each rule must be found."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNEL = ROOT / "compiler/kernel"

FORBIDDEN_INCLUDE = re.compile(r'#include "(ir/(?!evaluate\.h)|frontends/|compiler/passes/|compiler/kernel/(lower|compilation|library|gpu_forms|cpu_target|microbatches)\.h)')
FORBIDDEN_NAME = re.compile(r"\b(dt_value|dt_function|dt_module|dt_op|dt_lowering|dt_compilation)\b")
# What code is made with: the names, and what has to be laid out or addressed in units of the machine.
SEEN = {"level", "vector_bytes", "line_bytes", "name", "warp_name", "warp", "block", "resident_blocks", "product_lanes"}


def fields():
    """All that targets are described by, but for what renderers may see."""
    text = (KERNEL / "cpu_target.h").read_text()
    body = text[text.index("typedef struct dt_cpu_target {") : text.index("} dt_cpu_target;")]
    names = set(re.findall(r"\b(\w+)[,;]", re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)))
    gpu = (KERNEL / "gpu_target.h").read_text()
    names |= set(re.findall(r"X\((\w+), [^X]", gpu))
    assert {"registers", "load_cost", "sector_bytes", "tile_side"} <= names, names
    return names - SEEN - {"name"}


def mistakes(name, text, hidden):
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    found = [f"{name}: includes {match[1]}…" for match in FORBIDDEN_INCLUDE.finditer(text)]
    found += [f"{name}: names {match[1]}" for match in FORBIDDEN_NAME.finditer(code)]
    found += [f"{name}: reads a target's {match[1]}" for match in re.finditer(r"target(?:->|\.)(\w+)", code) if match[1] in hidden]
    return found


def main():
    hidden = fields()
    for planted in ('#include "ir/graph.h"\n', '#include "compiler/passes/choose.h"\n', "const dt_value *x;\n", "int n = e->choices->target->registers;\n", "if (f->target->tile_side > 3)\n"):
        assert mistakes("planted", planted, hidden), planted
    files = [path for path in sorted((ROOT / "compiler/codegen").iterdir()) if path.suffix in (".c", ".h", ".cu")]
    assert len(files) > 30
    found = [mistake for path in files for mistake in mistakes(path.name, path.read_text(), hidden)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
