"""The grammar of docs/language.md is the parser's: both take the same programs, and refuse the same ones.

The EBNF is read from the document and run as it stands. It must take every example, the library's texts and the document's own programs; then
programs with a token left out, doubled, swapped or replaced are given to both, and they must agree on each. `language_grammar.py SEED` runs other
mutations than the ones of every day.
"""
import concurrent.futures
import functools
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = SOURCE / "docs/language.md"
SEED = int(sys.argv[1]) if sys.argv[1:] else 1
N_MUTATIONS = 400

# ---- tokens, as the section "Text" describes them ----

KEYWORDS = {"fn", "if", "else", "for", "in", "return", "and", "or", "not", "true", "false", "none", "as"}
SYMBOLS = sorted("+ - * / // % ** @ == != < <= > >= = := => -> | , : . .. ... ( ) [ ] { }".split(), key=len, reverse=True)
BREAKS = {"+", "-", "*", "/", "//", "%", "**", "@", "==", "!=", "<", "<=", ">", ">=", "=", ":=", "=>", "->", "|", ",", ":", "..", "in", "and", "or", "not"}
TOKEN = re.compile(r'(?P<blank>[ \t\r]+|#[^\n]*)|(?P<NEWLINE>\n)|(?P<FLOAT>[0-9][0-9_]*(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))|'
                   r'(?P<INTEGER>[0-9][0-9_]*)|(?P<STRING>"(?:\\[nt"\\]|[^"\\\n])*")|(?P<NAME>[A-Za-z_][A-Za-z_0-9]*)|(?P<symbol>' +
                   "|".join(map(re.escape, SYMBOLS)) + ")")


def tokens(text):
    """[(kind, text)]: kind is NAME, INTEGER, FLOAT, STRING, NEWLINE, or the text itself for words that are taken and symbols."""
    found, brackets, at = [], [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        assert match, f"no token: {text[at:at + 20]!r}"
        kind, value, at = match.lastgroup, match[0], match.end()
        if kind == "NEWLINE":
            goes_on = not found or found[-1][0] == "NEWLINE" or found[-1][0] in BREAKS or re.match(r"(?:\s|#[^\n]*)*\|", text[at:])
            if not goes_on and (not brackets or brackets[-1] == "{"):
                found.append(("NEWLINE", "\n"))
        elif kind != "blank":
            found.append((value if kind == "symbol" or value in KEYWORDS else kind, value))
            if value in "([{":
                brackets.append(value)
            elif value in (")", "]", "}"):
                if value == "}":
                    while len(brackets) > 1 and brackets[-1] != "{":
                        brackets.pop()
                if brackets:
                    brackets.pop()
    if found and found[-1][0] != "NEWLINE":
        found.append(("NEWLINE", "\n"))
    return found


# ---- EBNF: text to rules, and rules run on tokens ----

def read_rules(text):
    words = re.findall(r'"[^"]*"|[A-Za-z]+|[=;|{}()\[\],]', text)
    at = 0

    def accept(word):
        nonlocal at
        if at < len(words) and words[at] == word:
            at += 1
            return True
        return False

    def choice():
        parts = [sequence()]
        while accept("|"):
            parts.append(sequence())
        return ("choice", tuple(parts))

    def sequence():
        parts = [item()]
        while accept(","):
            parts.append(item())
        while at < len(words) and words[at] not in (";", "|", "}", ")", "]"):
            parts.append(item())
        return ("sequence", tuple(parts))

    def item():
        nonlocal at
        for opening, closing, kind in (("{", "}", "many"), ("[", "]", "maybe"), ("(", ")", "group")):
            if accept(opening):
                inner = choice()
                assert accept(closing), f"{closing} is missing in the grammar"
                return (kind, inner)
        at += 1
        word = words[at - 1]
        return ("text", word[1:-1]) if word[0] == '"' else ("kind" if word.isupper() else "rule", word)

    rules = {}
    while at < len(words):
        name = words[at]
        at += 1
        assert accept("="), f"= is missing after {name}"
        rules[name] = choice()
        assert accept(";"), f"; is missing at the end of {name}"
    return rules


def takes(rules, program):
    """Do the rules derive the tokens?"""
    sys.setrecursionlimit(20000)

    @functools.lru_cache(maxsize=None)
    def ends(node, at):
        kind, content = node
        if kind == "rule":
            return ends(rules[content], at)
        if kind == "group":
            return ends(content, at)
        if kind == "choice":
            return frozenset().union(*(ends(part, at) for part in content))
        if kind == "sequence":
            places = {at}
            for part in content:
                places = set().union(*(ends(part, place) for place in places))
            return frozenset(places)
        if kind == "maybe":
            return ends(content, at) | {at}
        if kind == "many":
            places, new = {at}, {at}
            while new:
                new = set().union(*(ends(content, place) for place in new)) - places
                places |= new
            return frozenset(places)
        if at == len(program):
            return frozenset()
        token_kind, token = program[at]
        fits = token == content if kind == "text" else token_kind == content or (content == "WORD" and (token_kind == "NAME" or token in KEYWORDS))
        return frozenset({at + 1}) if fits else frozenset()

    return len(program) in ends(("rule", "program"), 0)


# ---- dtc ----

SYNTAX_ERROR = re.compile(r"error: (expected .*, found |.* is missing |.* does not chain)")


def dtc_takes(text, path):
    path.write_text(text)
    done = subprocess.run(["dtc", "compile", "--emit=ir", path.name], cwd=path.parent, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=60, text=True)
    assert done.returncode in (0, 1), f"exit status {done.returncode} for\n{text}\n{done.stderr}"
    return not SYNTAX_ERROR.search(done.stderr)


# ---- the test ----

def spaced(program):
    return "".join(text if text == "\n" else text + " " for _, text in program)


def mutated(program, chance):
    program = list(program)
    at = chance.randrange(len(program))
    how = chance.choice(("leave out", "double", "swap", "replace"))
    if how == "leave out":
        del program[at]
    elif how == "double":
        program.insert(at, program[at])
    elif how == "swap" and at > 0:
        program[at - 1], program[at] = program[at], program[at - 1]
    else:
        program[at] = chance.choice(program)
    return spaced(program)


def main():
    document = DOCUMENT.read_text()
    rules = read_rules(re.search(r"^```ebnf\n(.*?)^```", document, re.MULTILINE | re.DOTALL)[1])
    assert takes(rules, tokens("step s(x: f32[B]) { return y: -x ** 2 }"))
    assert not takes(rules, tokens("step s(x: f32[B]) { return y: x ** }"))
    programs = {path.name: path.read_text() for folder in ("examples", "frontends/dsl/std") for path in sorted((SOURCE / folder).glob("*.dt"))}
    shown = re.findall(r"^```dt (?:program|error)\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    programs.update((f"block {i} of docs/language.md", text) for i, text in enumerate(shown))
    wrong = [f"the grammar does not take {name}" for name, text in programs.items() if not takes(rules, tokens(text))]

    chance = random.Random(SEED)
    short = [tokens(text) for text in programs.values() if len(tokens(text)) < 400]
    texts = [mutated(chance.choice(short), chance) for _ in range(N_MUTATIONS)]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(pool.map(lambda i: dtc_takes(texts[i], pathlib.Path(folder, f"{i}.dt")), range(N_MUTATIONS)))
    for text, verdict in zip(texts, verdicts):
        if takes(rules, tokens(text)) != verdict:
            wrong.append(f"dtc {'takes' if verdict else 'refuses'} this, the grammar does not agree:\n{text}")
    assert 0 < sum(verdicts) < N_MUTATIONS, "the mutations test nothing"
    for sentence in wrong:
        print(sentence)
    print(f"seed {SEED}: {len(programs)} programs, {N_MUTATIONS} mutations, {sum(verdicts)} of them still programs")
    return bool(wrong)


sys.exit(main())
