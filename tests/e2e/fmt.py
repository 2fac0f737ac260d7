"""dtc fmt: all programs here are formatted; whatever the blanks were, the text is formatted to itself and the graph is the same; a file with a mistake
stays as it is.

    fmt.py [SEED [N]]      other blanks, in N programs
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DSL = str(pathlib.Path(os.environ["DT_TOOLS"]) / "dsl")
FOLDERS = ["examples", "frontends/dsl/std", "bench", "tests/programs", "tests/twins", "tests/lit"]
TOKEN = re.compile(r'#[^\n]*|"(?:\\.|[^"\\\n])*"|[ \t]+|\n|[^\s#"]+')


def fmt(*arguments, text=None):
    done = subprocess.run(["dtc", "fmt", *map(str, arguments)], input=text, capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def formatted(text):
    code, out, err = fmt("-", text=text.encode())
    assert code == 0, err
    return out


def graph(folder, text):
    """The module without source locations."""
    path = folder / "program.dt"
    path.write_text(text)
    done = subprocess.run([DSL, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return re.sub(r" @\d+:\d+:\d+(,\d+:\d+:\d+)*", "", done.stdout)


def with_other_blanks(draw, text):
    """The same tokens in the same lines; what stands around them differs."""
    out = []
    for match in TOKEN.finditer(text):
        token = match.group()
        at_start = match.start() == 0 or text[match.start() - 1] == "\n"
        if token == "\n":
            token = draw.choice(["\n", "\n", "\n", "\n\n", "  \n", "\r\n", "\n \n\n"])
        elif token[0] in " \t":
            token = draw.choice(["", " ", "\t", "       "]) if at_start else draw.choice([" ", " ", "  ", "\t", "     "])
        elif token[0] not in '#"':
            token = re.sub(r",", lambda _: draw.choice([",", ", ", " ,", ",   "]), token)
            token = re.sub(r"(?<=\w)(\*|/|\+)(?=\w)", lambda m: draw.choice([m.group(), f" {m.group()} "]), token)
        out.append(token)
    return "".join(out)


def all_are_formatted():
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.dt"))
    assert len(paths) > 40
    code, out, err = fmt("--check", *paths)
    assert code == 0 and out == "" and err == "", f"not formatted, `dtc fmt` mends it:\n{out}{err}"
    return paths


def blanks_decide_nothing(folder, paths, seed, n):
    draw = random.Random(seed)
    programs = [path for path in paths if path.parent.name in ("examples", "programs")]
    for _ in range(n):
        path = draw.choice(programs)
        text = path.read_text()
        other = with_other_blanks(draw, text)
        once = formatted(other)
        assert formatted(once) == once, f"seed {seed}: {path.name} is not formatted to itself:\n{once}"
        assert graph(folder, once) == graph(folder, text), f"seed {seed}: {path.name} means something else:\n{once}"


def one_style():
    ugly = """\ufeffuse  nn ,losses\r
const  width=4
const    depth   =  2   # layers


option rate = 0.1
fn f( x:f32[ B,C ] , k :int=2 )->f32[B,C]{

  # a comment
      y=x[ : , 0:k+1 ]*- 1 + x [:,1 : ]**2
    for i in 0 .. depth{ y=y+ ( i ) }
  return sum(y,
axis:1,
   keep : true)[..., newaxis]*(
x
  )

}
step s(x:f32[B,4]){
return a : x,
 longer:  x,
        b: x
}"""
    wanted = """use nn, losses
const width = 4
const depth = 2   # layers

option rate = 0.1
fn f(x: f32[B, C], k: int = 2) -> f32[B, C] {
    # a comment
    y = x[:, 0 : k + 1] * -1 + x[:, 1:] ** 2
    for i in 0..depth { y = y + (i) }
    return sum(y,
               axis: 1,
               keep: true)[..., newaxis] * (
                   x
               )
}
step s(x: f32[B, 4]) {
    return a: x,
           longer: x,
           b: x
}
"""
    got = formatted(ugly)
    assert got == wanted, got
    assert formatted("") == "" and formatted("\n\n") == "" and formatted("# c") == "# c\n"
    first = "fn f(x: f32[B],\n   y: f32[B]) { return x + y }\n"  # the first line counts as others do
    assert formatted(first) == "fn f(x: f32[B],\n     y: f32[B]) { return x + y }\n", formatted(first)
    columns = "step s(x: f32[B]) {\n    a   = x\n    bcd = x\n    e = x\n    return a: a,  b:  e\n}\n"
    assert formatted(columns) == columns.replace("a,  b:  e", "a, b: e")


def files(folder):
    good, ugly, wrong, link = folder / "good.dt", folder / "ugly.dt", folder / "wrong.dt", folder / "link.dt"
    good.write_text("const a = 1\n")
    ugly.write_text("const  a=1\n")
    wrong.write_text("const  a=(\n")
    link.symlink_to("ugly.dt")
    ugly.chmod(0o640)
    code, out, err = fmt("--check", good, wrong, link)
    assert (code, out) == (1, f"{link}\n") and "wrong.dt:2:1: error" in err and ugly.read_text() == "const  a=1\n", (code, out, err)
    code, out, err = fmt(good, wrong, link)
    assert (code, out) == (1, "") and "wrong.dt:2:1: error" in err, (code, out, err)
    assert ugly.read_text() == "const a = 1\n" and wrong.read_text() == "const  a=(\n"
    assert link.is_symlink() and ugly.stat().st_mode & 0o777 == 0o640
    assert fmt("--check", good, ugly) == (0, "", "")
    assert fmt("-", text=b"const  a=1")[:2] == (0, "const a = 1\n") and fmt("-", text=b"const a = (")[:2] == (1, "")
    assert fmt("--check", "-", text=b"const  a=1")[:2] == (1, "standard input\n")
    assert fmt("-", text=b"const a\0 = 1")[0] == 1 and fmt(folder / "none.dt")[0] == 1 and fmt()[0] == 2


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 25
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        one_style()
        files(folder)
        blanks_decide_nothing(folder, all_are_formatted(), seed, n)


if __name__ == "__main__":
    main()
