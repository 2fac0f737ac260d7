"""c_api_reference: writes the last part of docs/c-api.md, the reference, from the headers that applications include.

    python3 scripts/c_api_reference.py               # after a change of include/*.h
    python3 scripts/c_api_reference.py --man FOLDER  # manual pages of section 3 instead: one for each header, found by each function's name too

Of a header: its opening comment, then its sections (/* ---- NAME ---- */), and in each the paragraphs of declarations: the comment above as text, the
rest as code. tests/structure/c_api.py sees that the page is up to date."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/c-api.md"
HEADERS = "dt_status.h", "dtrt.h", "dtc.h"
MARK = "## Reference\n"


def as_text(comment):
    """Markdown of a comment: `name  text` begins an item of a list, what is indented by four or more is code or belongs to the item before."""
    lines = [re.sub(r"^ ?\* ?", "", line).rstrip() for line in comment.removeprefix("/*").removesuffix("*/").strip().splitlines()]
    out, in_code = [], False
    for line in lines:
        item = re.match(r" {0,3}(\w[\w, ]*?) {2,}(\S.*)", line)
        is_code = line.startswith("    ") and not (out and out[-1].startswith("- "))
        if is_code != in_code:
            out += ["```" if in_code else "```c"] if in_code else ["", "```c"]
            in_code = is_code
        if is_code:
            out.append(line[4:])
        elif item:
            out += [""] if out and out[-1] and not out[-1].startswith("- ") else []
            out.append(f"- **{item[1]}** " + escaped(item[2]))
        elif line.startswith(" ") and out and out[-1].startswith("- "):
            out[-1] += " " + escaped(line.strip())
        else:
            out.append(escaped(line.strip()))
    return "\n".join(out + ["```"] * in_code)


def escaped(line):
    return line.replace("*", "\\*").replace("<", "&lt;")


def paragraphs(section):
    """[(comment or "", code)] of what blank lines separate."""
    for paragraph in re.split(r"\n\s*\n", section.strip()):
        above = re.match(r"/\*.*?\*/\n?", paragraph, re.DOTALL)
        comment = above[0].strip() if above else ""
        yield comment, paragraph[len(above[0]) if above else 0:].strip()


def body_of(section):
    """Without what is for the preprocessor alone."""
    section = re.sub(r"#ifdef __cplusplus\n.*?#endif\n?", "", section, flags=re.DOTALL)
    return re.sub(r"^#(ifndef \w+_H|define \w+_H|include .*|endif.*)$", "", section, flags=re.MULTILINE)


def parts_of(header):
    """Its opening comment, and [(title, its paragraphs)]."""
    inside = re.split(r"/\* ---- (.*?) ---- \*/", re.sub(r"\A/\*.*?\*/", "", header, count=1, flags=re.DOTALL))
    sections = zip([""] + inside[1::2], [inside[0]] + inside[2::2])
    return re.match(r"/\*.*?\*/", header, re.DOTALL)[0], [(title, list(paragraphs(body_of(section)))) for title, section in sections]


def reference():
    out = []
    for name in HEADERS:
        opening, sections = parts_of((ROOT / "include" / name).read_text())
        out += [f"### {name}", as_text(opening)]
        for title, section in sections:
            out += [f"#### {title[0].upper()}{title[1:]}"] if title else []
            for comment, code in section:
                out += [as_text(comment)] if comment else []
                out += [f"```c\n{code}\n```"] if code else []
    return "\n\n".join(out) + "\n"


# ---- manual pages ----

def verbatim(text):
    """Lines as they are; one that begins with a dot or a quote is a command of troff's, so nothing begins with them."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return ".nf\n" + "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.splitlines()) + "\n.fi"


def plain(comment):
    lines = comment.removeprefix("/*").removesuffix("*/").strip().splitlines()
    return verbatim("\n".join(re.sub(r"^ ?\* ?", "", line).rstrip() for line in lines))


def manual(name, version):
    """The page of a header, and the functions that it declares."""
    header = (ROOT / "include" / name).read_text()
    opening, sections = parts_of(header)
    library, _, does = opening.removeprefix("/*").strip().partition(": ")
    what = re.split(r"[:;,(]|[.]\s", does)[0].strip()
    out = [f'.TH {library.upper()} 3 "" "dt {version}" "Library Functions"', ".SH NAME",
           f"{library} \\- {what}", ".SH SYNOPSIS", f".B #include <{name}>", ".SH DESCRIPTION", plain(opening)]
    for title, section in sections:
        out += [f'.SH "{title.upper()}"'] if title else []
        for comment, code in section:
            out += [".PP", plain(comment)] if comment else []
            out += [".PP", ".RS", verbatim(code.replace("DT_API ", "")), ".RE"] if code else []
    return library, "\n".join(out) + "\n", re.findall(r"^DT_API .*?(\w+)\(", header, re.MULTILINE)


def write_manuals(folder):
    version = re.search(r'DT_VERSION "(.*)"', (ROOT / "abi/version.h").read_text())[1]
    for header in HEADERS:
        library, text, functions = manual(header, version)
        (folder / f"{library}.3").write_text(text)
        for function in functions:
            (folder / f"{function}.3").write_text(f".so man3/{library}.3\n")


def page(text):
    """The page with its reference as it should be."""
    return text[:text.index(MARK) + len(MARK)] + "\n" + reference()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--man"]:
        write_manuals(pathlib.Path(sys.argv[2]))
        sys.exit()
    PAGE.write_text(page(PAGE.read_text()))
