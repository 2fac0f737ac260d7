"""drawn: a change of one line of the compiler's sources, drawn by a seed, of the kind that people make by mistake.

What is dead text is left alone: comments, messages, asserts, preprocessor lines, the documentation of the op table.
"""
import random
import re

# What is changed, by group: patterns of files. A group is drawn first, so that a large one does not hide a small one.
GROUPS = {
    "ops": ("ir/ops.def", "ir/functions.def", "ir/ops_*.c"),
    "passes": ("compiler/passes/*.c",),
    "frontend": ("frontends/dsl/*.c",),
    "codegen": ("compiler/codegen/*.c", "compiler/kernel/*.c"),
}

SWAPS = [(" + ", " - "), (" - ", " + "), (" * ", " / "), (" / ", " * "), (" % ", " / "), (" < ", " <= "), (" <= ", " < "), (" > ", " >= "),
         (" >= ", " > "), (" == ", " != "), (" != ", " == "), (" && ", " || "), (" || ", " && "), (" & ", " | "), (" | ", " & "), (" += ", " -= "),
         ("++", "--"), (" << ", " >> "), ("true", "false"), ("false", "true")]  # fmt: skip
DECLARATION = re.compile(r"(const |static |struct |enum |typedef )|\w+ \*?\w+(\[\w*\])*( = |;|,)")
KEPT = re.compile(r"(return|case|default|goto|else|assert|for|while|switch|do)\b|[A-Z_]+\(.*\)$")


def matching(text, at):
    """The place of the bracket that closes the one at `at`, or None."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    return None


def live(text, is_table):
    """The text with everything blank that means nothing to the compiled program; of a table, strings are code and stay, but for the last of a row."""
    out, strings, i = list(text), [], 0

    def blank(first, last):
        for k in range(first, last):
            if out[k] != "\n":
                out[k] = " "

    for token in re.finditer(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|^[ \t]*#[^\n]*', text, re.S | re.M):
        if token.group()[0] == '"':
            strings.append(token.span())
        if not (is_table and token.group()[0] == '"'):
            blank(*token.span())
    if is_table:
        for row in re.finditer(r"^(\w+)\(", text, re.M):
            end = matching("".join(out), row.end() - 1) or row.end()
            inside = [span for span in strings if row.end() <= span[0] < end]
            first = inside[-1][0] if inside else end
            blank(row.start(), row.end())
            blank(first, end)
        return "".join(out)
    code = "".join(out)
    for first, last in strings:  # a message, with what it is filled with
        if " " in text[first:last]:
            depth = 0
            for k in range(last, len(code)):
                depth += (code[k] in "([{") - (code[k] in ")]}")
                if depth < 0 or (depth == 0 and code[k] == ";"):
                    blank(first, k)
                    break
    for asserted in re.finditer(r"\b(static_)?assert\(", code):
        blank(asserted.start(), matching(code, asserted.end() - 1) or asserted.end())
    return "".join(out)


def split_at(code, separator):
    """Parts between separators that stand in no brackets: (first, last) each."""
    parts, depth, first, i = [], 0, 0, 0
    while i < len(code):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0 and code.startswith(separator, i):
            parts.append((first, i))
            i = first = i + len(separator)
            continue
        i += 1
    return parts + [(first, len(code))]


def changes(line, code, is_table, whole):
    """[(kind, the line changed)]. `code` is the line without dead text; `whole`: a statement begins and ends in it."""
    found = []

    def put(kind, first, last, text):
        changed = line[:first] + text + line[last:]
        if changed != line:
            found.append((kind, changed))

    for before, after in SWAPS:
        for m in re.finditer(re.escape(before) if not before[0].isalpha() else rf"\b{before}\b", code):
            put("operator", m.start(), m.end(), after)
    for m in re.finditer(r"(?<![\w.])\d+(?![\w.])", code):
        put("constant", m.start(), m.end(), str(int(m.group()) + 1))
        if int(m.group()) > 0:
            put("constant", m.start(), m.end(), str(int(m.group()) - 1))
    for m in re.finditer(r"(?<![\w.])\d+\.\d+(?:e[-+]?\d+)?", code):
        put("constant", m.start(), m.end(), f"(1.01 * {m.group()})" if not is_table else repr(float(m.group()) * 1.01))
    for m in re.finditer(r"\b(\w+)\(", code):
        end = matching(code, m.end() - 1)
        if end is None:
            continue
        inside = code[m.end() : end]
        if m.group(1) == "if":
            put("negate", m.end(), end, f"!({line[m.end():end]})")
        for separator in (" && ", " || ") if m.group(1) == "if" else ():
            parts = split_at(inside, separator)
            for k, (first, last) in enumerate(parts if len(parts) > 1 else []):
                rest = [line[m.end() + a : m.end() + b] for i, (a, b) in enumerate(parts) if i != k]
                put("drop a condition", m.end(), end, separator.join(rest))
        parts = [(m.end() + a, m.end() + b) for a, b in split_at(inside, ", ")]
        for (a, b), (c, d) in zip(parts, parts[1:]):
            if line[a:b].strip() and m.group(1) not in ("for", "sizeof"):
                put("swap arguments", a, d, f"{line[c:d]}, {line[a:b]}")
    text = code.strip()
    returned = re.match(r"(\s*return )(.*);$", code)
    for separator in (" && ", " || ") if returned else ():
        parts = split_at(returned.group(2), separator)
        for k in range(len(parts) if len(parts) > 1 else 0):
            rest = [line[returned.end(1) + a : returned.end(1) + b] for i, (a, b) in enumerate(parts) if i != k]
            put("drop a condition", returned.end(1), returned.end(2), separator.join(rest))
    if not is_table and whole and text.endswith(";") and not DECLARATION.match(text) and not KEPT.match(text):
        put("delete", len(line) - len(line.lstrip()), len(line), ";")
    if text in ("break;", "continue;"):
        put("delete", len(line) - len(line.lstrip()), len(line), ";")
    return found


def candidates(path, text):
    """[(number of the line from 1, kind, before, after)] of a file."""
    is_table = path.endswith(".def")
    lines, codes = text.split("\n"), live(text, is_table).split("\n")
    found, before = [], ""
    for n, (line, code) in enumerate(zip(lines, codes), 1):
        if code.strip() and (is_table or line[:1] in " \t"):  # at the margin stand heads of functions
            whole = before.endswith((";", "{", "}")) or before == ""
            found += [(n, kind, line, after) for kind, after in changes(line, code, is_table, whole)]
        before = code.strip() or before
    return found


def draw(seed, root):
    """Changes without end, the first of which that compiles and changes the code is the seed's: (group, path, line, kind, before, after)."""
    source = random.Random(seed)
    files = {group: sorted(p.relative_to(root).as_posix() for pattern in patterns for p in root.glob(pattern)) for group, patterns in GROUPS.items()}
    known = {}
    while True:
        group = source.choice(sorted(files))
        sizes = [(root / path).stat().st_size for path in files[group]]
        path = source.choices(files[group], sizes)[0]
        if path not in known:
            known[path] = candidates(path, (root / path).read_text())
        if not known[path]:
            continue
        kind = source.choice(sorted({c[1] for c in known[path]}))
        line, _, before, after = source.choice([c for c in known[path] if c[1] == kind])
        yield group, path, line, kind, before, after
