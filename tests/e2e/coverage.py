"""coverage: tests/golden/coverage.md has a row for each name that Keras lists (keras_names.txt; metrics: tests/structure/coverage.py), and what it says is here is
here: functions, layers and optimizers of the library with their parameters, functions built in, ops, sources and stages of data, words of the language. What of
the library trains has goldens with updates, unless it draws random numbers."""

import pathlib
import os
import re
import sys

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
sys.path.insert(0, str(SOURCE / "tests/tools"))
import golden_cases
import layer_updates

GOLDEN = SOURCE / "tests/golden"
WORDS = {"param", "layer", "fn", "optimizer", "p"}
RANDOM = {"dropout", "spatial_dropout", "alpha_dropout", "gaussian_noise", "gaussian_dropout"}
REASONS = ("not there: ", "the language itself: ", "none: ", "arithmetic: ")


def names_here():
    """Every name of a head in the library and of the functions in C, elementwise ops, and the names of pipelines and their arguments."""
    texts = [re.sub(r"#.*", "", path.read_text()) for path in (SOURCE / "frontends/dsl/std").glob("*.dt")]
    heads = [match[0] for text in texts for match in re.finditer(r"^(?:fn|layer|optimizer|model) \w+\((?:[^()]|\([^()]*\))*\)", text, re.MULTILINE)]
    builtins = "".join(path.read_text() for path in (SOURCE / "frontends/dsl").glob("builtins*.c"))
    heads += [" ".join(pair) for pair in re.findall(r'^    \{"(\w+)", "?([^\n]*)', builtins, re.MULTILINE)]
    heads += re.findall(r"^OP\((\w+), MAP,", (SOURCE / "ir/ops.def").read_text(), re.MULTILINE)
    heads.append((SOURCE / "abi/pipeline.h").read_text())
    assert len(heads) > 200, "the heads have moved"
    return set(re.findall(r"\w+", " ".join(heads))) | WORDS


def rows(text):
    """(module, name, what is here) of each row."""
    module = None
    for line in text.splitlines():
        if line.startswith("## "):
            module = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and module not in (None, "Metrics") and cells[0] != "Keras":
            yield module, cells[0], " | ".join(cells[1:])


def complaints(text, listed, here):
    found = list(rows(text))
    wrong = [f"{name} is listed by Keras and has no row" for name in listed if name not in [f"{m}.{n}" for m, n, _ in found]]
    wrong += [f"{m}.{n} has a row, Keras does not list it" for m, n, _ in found if f"{m}.{n}" not in listed]
    for module, name, said in found:
        spans = re.findall(r"`([^`]+)`", said)
        wrong += [f"{module}.{name}: there is no {span}" for span in spans if re.fullmatch(r"\w+", span) and span not in here]
        if not said.startswith(REASONS) and not spans:
            wrong.append(f"{module}.{name}: what is here, or why not?")
    return wrong


def library_names():
    """What trains: layers and functions of them, losses, optimizers."""
    texts = [(SOURCE / f"frontends/dsl/std/{module}.dt").read_text() for module in ("nn", "recurrent", "losses", "optimizers")]
    return {name for text in texts for name in re.findall(r"^(?:fn|layer|optimizer) (\w+)\(", text, re.MULTILINE)}


def without_updates(text, goldens):
    """Rows that name a part of the library of which no golden has updates."""
    for module, name, said in rows(text):
        for span in re.findall(r"`(\w+)`", said):
            if module in ("layers", "activations", "losses", "optimizers") and span in library_names() - RANDOM - goldens:
                yield f"{module}.{name}: no golden has updates of {span}"


goldens = {row["call"] for row, tensors in golden_cases.rows() if row["kind"] == "optimizer" or any(key.startswith("updated/") for key in tensors)}
goldens |= {case["call"] for file in ("convolutions", "recurrent") for case in layer_updates.read(file)[0]}
listed = [line for line in (GOLDEN / "keras_names.txt").read_text().splitlines() if not line.startswith("#")]
here, text = names_here(), (GOLDEN / "coverage.md").read_text()
assert complaints(text.replace("| Adam | `adam`", "| Adam | `adams`"), listed, here)
assert complaints(text.replace("| Adam |", "| Atom |"), listed, here)
assert complaints(text, listed + ["layers.New"], here)
assert list(without_updates(text, goldens - {"group_norm"}))
found = [*complaints(text, listed, here), *without_updates(text, goldens)]
print("\n".join(found) or f"{len(listed)} names of Keras")
sys.exit(1 if found else 0)
