"""dtc graph draws each example, as XML that a browser takes, in which all layers of the program are; what cannot be drawn is an error that says what helps."""
import os
import shutil
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

EXAMPLES = pathlib.Path(os.environ["DT_SOURCE"]) / "examples"
NAMES = ("fashion_cnn", "resnet", "gan", "gpt")


def graph(*flags, expect=0, **environment):
    done = subprocess.run([shutil.which("dtc"), "graph", *map(str, flags)], capture_output=True, text=True, env={**os.environ, **environment})
    check(done.returncode == expect, f"{flags}: exit status {done.returncode}\n{done.stderr}")
    return done


def words(path):
    return ["".join(e.itertext()) for e in xml.etree.ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}text")]


net = FOLDER / "net.dt"
net.write_text(PROGRAM)
done = graph(net, "-o", FOLDER / "net.svg", expect=1, PATH="/nowhere")
check("net.svg is drawn by Graphviz's dot, which is not installed: apt-get install graphviz, or write text with -o FILE.dot" in done.stderr, done.stderr)
graph(net, "-o", FOLDER / "net.dot", PATH="/nowhere")
check((FOLDER / "net.dot").read_text() == graph(net).stdout, "a file and standard output hold other text")
ir = FOLDER / "net.ir"
ir.write_text(subprocess.run(["dtc", "compile", net, "--emit=ir"], capture_output=True, text=True).stdout)
check("reduce_sum" in graph(ir).stdout, "a graph in text form has no layers, and is drawn by its lines")
check("there is no step none; --step picks one of: train, evaluate, predict" in graph(net, "--step", "none", expect=1).stderr, "--step none")
check("would overwrite what is read" in graph(net, "-o", net, expect=1).stderr, "-o the program")
graph(net, "--depth", "-1", expect=2)
if shutil.which("dot") is None:
    print("skipped: Graphviz is not installed")
    sys.exit(77)
check("none/net.svg: cannot create" in graph(net, "-o", FOLDER / "none/net.svg", expect=1).stderr, "a folder that is not there")
fake = FOLDER / "fake/dot"
fake.parent.mkdir()
fake.write_text("#!/bin/sh\necho '<svg'\necho 'Error: no fonts' >&2\nexit 1\n")
fake.chmod(0o755)
done = graph(net, "-o", FOLDER / "failed.svg", expect=1, PATH=f"{fake.parent}:{os.environ['PATH']}")
check(done.stderr == "dtc: dot could not draw it: Error: no fonts\n" and not (FOLDER / "failed.svg").exists(), done.stderr)
for name in NAMES:
    graph(EXAMPLES / f"{name}.dt", "-o", FOLDER / f"{name}.svg")
    shown = words(FOLDER / f"{name}.svg")
    summary = subprocess.run(["dtc", "summary", EXAMPLES / f"{name}.dt"], capture_output=True, text=True).stdout
    layers = [line.split()[0] for line in summary.split("\n\n")[0].splitlines()[1:]]
    missing = {layer for layer in layers if not any(text.strip().split(":")[0] == layer for text in shown)}
    check(not missing and len(layers) > 3, f"{name}: of {layers} the picture lacks {missing}: {shown}")
    check(any("crosses replicas" in text for text in shown) and any("f32[B, " in text for text in shown), f"{name}: {shown}")
finish()
