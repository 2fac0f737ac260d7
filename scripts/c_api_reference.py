"""c_api_reference: writes the last part of docs/c-api.md, the reference, from the headers that applications include.

    python3 scripts/c_api_reference.py            # after a change of include/*.h

Of a header: its opening comment, then its sections (/* ---- NAME ---- */), and in each the paragraphs of declarations: the comment above as text, the
rest as code. tests/structure/c_api.py sees that the page is up to date."""
import pathlib
import re

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


def reference():
    out = []
    for name in HEADERS:
        header = (ROOT / "include" / name).read_text()
        out += [f"### {name}", as_text(re.match(r"/\*.*?\*/", header, re.DOTALL)[0])]
        inside = re.split(r"/\* ---- (.*?) ---- \*/", re.sub(r"\A/\*.*?\*/", "", header, count=1, flags=re.DOTALL))
        for title, section in zip([""] + inside[1::2], [inside[0]] + inside[2::2]):
            out += [f"#### {title[0].upper()}{title[1:]}"] if title else []
            for comment, code in paragraphs(body_of(section)):
                out += [as_text(comment)] if comment else []
                out += [f"```c\n{code}\n```"] if code else []
    return "\n\n".join(out) + "\n"


def page(text):
    """The page with its reference as it should be."""
    return text[:text.index(MARK) + len(MARK)] + "\n" + reference()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
