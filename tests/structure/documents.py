"""Documents lead somewhere: each relative link names a file of the repository, and each anchor a heading of that page. Figures in the README's table
beside others stand in docs/benchmarks.md, which says how they were measured."""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGES = [SOURCE / "README.md", *sorted(path for folder in ("docs", "examples", "python", "tests") for path in (SOURCE / folder).rglob("*.md"))]


def prose(text):
    """The text without its fenced blocks and code."""
    return re.sub(r"`[^`\n]*`", "code", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(text):
    """The anchors of a page's headings, as GitHub and others make them."""
    found = []
    for heading in re.findall(r"^#+ +(.*)", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return found


def dead_links(page, text):
    for link in re.findall(r"]\(([^)\s]+)\)", prose(text)):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            yield f"{link}: there is no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(text if target == page else target.read_text()):
            yield f"{link}: there is no such heading"


def rows(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def figures(text):
    """Numbers of the table whose rows end with a command of bench/, without their units."""
    return [re.split(r"[ ,]+(?=[^\d])", cell)[0] for row in rows(text) if "bench/run.sh" in row[-1] for cell in row[1:-1] if re.match(r"\d", cell)]


def self_check():
    page = SOURCE / "README.md"
    text = "# A b: `c`, d\n[x](README.md) [y](#a-b-c-d) [z](docs/design.md#promises) [w](https://a.b/c)\n```\n[no](none.md)\n```\n"
    assert not list(dead_links(page, text)), list(dead_links(page, text))
    assert len(list(dead_links(page, text + "[x](none.md) [y](#c) [z](docs/design.md#none) ![p](none.svg)\n"))) == 4
    assert anchors("# One\n## One\n") == ["one", "one-1"]
    assert figures("| a step | 1.5 ms | — | 2,000 | `bench/run.sh cnn` |\n| other | 3 |\n") == ["1.5", "2,000"]


def main():
    self_check()
    wrong = [f"{page.relative_to(SOURCE)}: {sentence}" for page in PAGES for sentence in dead_links(page, page.read_text())]
    measured = {cell for row in rows((SOURCE / "docs/benchmarks.md").read_text()) for cell in row}
    shown = figures((SOURCE / "README.md").read_text())
    assert len(shown) >= 10, shown
    wrong += [f"README.md: {figure} is no figure of docs/benchmarks.md" for figure in shown if figure not in measured]
    print("\n".join(wrong) or f"{len(PAGES)} pages")
    return 1 if wrong else 0


sys.exit(main())
