"""Writes docs/python.md: python/document.md, and below it what the docstrings of the module dt say.

    PYTHONPATH=build/python python3 scripts/python_document.py > docs/python.md
"""
import inspect
import pathlib
import re
import sys

import dt

HERE = pathlib.Path(__file__).resolve().parent.parent / "python"
CLASSES = (dt.Program, dt.Session, dt.Processes, dt.Training, dt.Report, dt.Gathered, dt.Moment, dt.LaunchValues, dt.Step, dt.Tensor, dt.Layer, dt.Picture, dt.Finding,
           dt.Diagnostic)


def text_of(thing):
    return inspect.cleandoc(thing.__doc__ or "")


def annotation(text):
    """Types as a reader writes them."""
    text = re.sub(r"\b(_dt|numpy|typing|collections\.abc)\.", "", text)
    return text.replace("ndarray[Any, Any]", "ndarray")


def signature(function):
    """Without self, and with a line for what does not fit."""
    try:
        found = inspect.signature(function)
    except ValueError:
        return ""
    parameters = [parameter for parameter in found.parameters.values() if parameter.name != "self"]
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", annotation(str(found.replace(parameters=parameters)))).replace("'", '"')


def heading(level, name, function):
    return f"{'#' * level} `{name}`\n\n```python\n{wrap(name + signature(function))}\n```\n"


def wrap(text):
    """A long signature, one parameter a line."""
    if len(text) <= 120:
        return text
    inside = text[text.index("(") + 1:text.rindex(")")]
    depth, begin, parts = 0, 0, []
    for i, letter in enumerate(inside):
        depth += letter in "[(" and 1 or letter in "])" and -1
        if letter == "," and depth == 0:
            parts.append(inside[begin:i].strip())
            begin = i + 1
    parts.append(inside[begin:].strip())
    lines, line = [], ""
    for part in parts:
        if line and len(line) + len(part) > 110:
            lines.append(line)
            line = ""
        line += f"{part}, "
    return f"{text[:text.index('(')]}(\n    " + "\n    ".join([*lines, line.rstrip(", ")]).replace(" \n", "\n") + f"{text[text.rindex(')'):]}"


def attributes(of):
    """(name, sentence) of properties, and of what a docstring below a field explains."""
    found = [(name, text_of(value)) for name, value in members(of) if isinstance(value, property)]
    source = inspect.getsource(of)
    found += re.findall(r'^    (?:self\.)?(\w+)(?:: [^\n=]+?)?(?: = [^\n]*)?\n    """(.*?)"""$', source, re.MULTILINE)
    return found


def members(of):
    """What a class, or a base of it that is ours, defines, in its order; the most derived definition."""
    names = {}
    for base in reversed([base for base in of.__mro__ if base.__module__.startswith("dt")]):
        names.update(dict.fromkeys(vars(base)))
    return [(name, inspect.getattr_static(of, name)) for name in names if not name.startswith("_")]


def describe(of):
    parts = [f"## `dt.{of.__name__}`\n", text_of(of) + "\n"]
    rows = attributes(of)
    if rows:
        parts.append("| | |\n|---|---|\n" + "".join(f"| `{name}` | {' '.join(text.split())} |\n" for name, text in rows))
    for name, member in members(of):
        if callable(member) and member.__doc__ and not isinstance(member, type):
            parts.append(f"{heading(3, f'{of.__name__}.{name}', member)}\n{text_of(member)}\n")
    return "\n".join(parts)


def exceptions():
    classes = [thing for thing in map(vars(dt).get, dt.__all__) if isinstance(thing, type) and issubclass(thing, dt.Error)]
    rows = "".join(f"| `dt.{one.__name__}` | {' '.join(text_of(one).split())} |\n" for one in classes)
    return f"## Exceptions\n\n| | |\n|---|---|\n{rows}"


def main():
    parts = [(HERE / "document.md").read_text()]
    for function in (dt.compile, dt.format, dt.open, dt.devices, dt.report, dt.export_weights):
        parts.append(f"{heading(2, f'dt.{function.__name__}', function)}\n{text_of(function)}\n")
    parts += [describe(one) for one in CLASSES]
    parts.append(exceptions())
    sys.stdout.write("\n".join(parts))


main()
