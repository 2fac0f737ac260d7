"""Programs: compiled from files and texts, opened, described, refused."""
import json
import pickle
import resource
import shutil
import subprocess
import sys

import dt
import numpy as np
import pytest
from conftest import PROGRAM

MISTAKE = """use nn
step predict(x: f32[B, 4]) {
    return y: matmul(x, x)
}
"""


def test_file_and_text_are_the_same_program(tmp_path, program):
    (tmp_path / "net.dt").write_text(PROGRAM)
    assert dt.compile(tmp_path / "net.dt").variables == program.variables


def test_artifact_is_written_and_opened(tmp_path, program):
    dt.compile(PROGRAM, output=tmp_path / "m.dtx")
    opened = dt.open(tmp_path / "m.dtx")
    assert opened.steps == program.steps and opened.path == str(tmp_path / "m.dtx")
    assert opened.text() == PROGRAM


def test_a_program_is_not_overwritten(tmp_path):
    path = tmp_path / "net.dt"
    path.write_text(PROGRAM)
    with pytest.raises(dt.InvalidArgument, match="would overwrite"):
        dt.compile(path, output=path)
    assert path.read_text() == PROGRAM


def test_options_of_the_program():
    assert dt.compile(PROGRAM, options={"width": 5}).variables["Net/dense/kernel"].shape == (4, 5)
    assert dt.compile(PROGRAM, batch=3).batch == 3
    with pytest.raises(dt.Error, match="breadth"):
        dt.compile(PROGRAM, options={"breadth": 5})
    with pytest.raises(TypeError, match="is no option"):
        dt.compile(PROGRAM, options={"width": object()})


def test_what_a_program_says(program):
    train = program.steps["train"]
    assert (train.trains, train.data, train.reports) == (True, "train_set", ("loss", "accuracy"))
    assert [str(tensor) for tensor in train.inputs] == ["x: f32[B, 4]", "y: u8[B]"]
    assert program.steps["predict"].results[1].shape == (None, 3)
    assert program.n_parameters == 4 * 16 + 16 + 16 * 3 + 3 == program.n_trainable
    assert "net" in repr(program)


def test_html_has_each_layer(program):
    html = program._repr_html_()
    for text in ("Net", "\u2003dense_1", "f32[B, 16]", "kernel f32[4, 16]", "131 parameters", "evaluate"):
        assert text in html


USES = "use mine\nstep s(x: f32[B, 4]) {\n    return y: twice(x)\n}\n"


def test_what_is_known_of_an_opened_program(tmp_path):
    compiled = dt.compile(PROGRAM, options={"width": 5}, batch=3, output=tmp_path / "m.dtx")
    opened = dt.open(tmp_path / "m.dtx")
    assert opened.layers == compiled.layers
    assert [(layer.path, layer.output, layer.n_parameters) for layer in opened.layers[1:]] == [("Net/dense", "f32[B, 5]", 25),
                                                                                                ("Net/dense_1", "f32[B, 3]", 18)]
    assert opened.summary() == compiled.summary() and "3 rows" in opened.summary()

    (tmp_path / "mine.dt").write_text("fn twice(x) {\n    return 2 * x\n}\n")
    (tmp_path / "uses.dt").write_text(USES)
    dt.compile(tmp_path / "uses.dt", batch=2, output=tmp_path / "uses.dtx")
    (tmp_path / "mine.dt").unlink()
    alone = dt.open(tmp_path / "uses.dtx")
    with pytest.raises(dt.CompileError, match="mine"):
        alone.graph()
    assert "x: f32[B, 4]" in alone._repr_html_()


def test_a_program_is_what_was_compiled(tmp_path):
    path = tmp_path / "net.dt"
    path.write_text(PROGRAM)
    program = dt.compile(path)
    path.write_text("no program")
    assert program.layers[1].path == "Net/dense"


def test_a_picture(program, tmp_path, monkeypatch):
    picture = program.graph()
    assert "digraph" in picture.dot and "dense_1</b>" in picture.dot and "net.dt" in repr(picture)
    assert "dense_1</b>" not in program.graph("predict", depth=0).dot
    picture.save(tmp_path / "net.gv")
    assert (tmp_path / "net.gv").read_text() == picture.dot
    with pytest.raises(ValueError, match="is a .svg"):
        picture.save(tmp_path / "net.gif")
    with pytest.raises(dt.NotFound, match="picks one of: train"):
        program.graph("nosuch")
    with pytest.raises(ValueError, match="depth is -1"):
        program.graph(depth=-1)
    assert "<svg" in picture._repr_svg_()
    monkeypatch.setenv("PATH", "/nowhere")
    assert program.graph("predict")._repr_svg_() is None
    with pytest.raises(dt.NotFound, match="apt-get install graphviz"):
        program.graph("predict").svg


def test_a_check(program):
    findings = program.check()
    assert [finding.kind for finding in findings] == ["program"] + ["gradients", "replicas", "passes", "batch"] * 3
    assert {finding.verdict for finding in findings} == {"holds"}
    assert str(findings[1]).startswith("step train: gradients: 4 are the slopes") and findings[1].n_compared == 4
    assert [finding.step for finding in program.check("predict", rows=1)] == [None] + ["predict"] * 4
    with pytest.raises(dt.NotFound, match="has no step nosuch"):
        program.check("nosuch")
    unknown = dt.compile("step s(x: f32[B]) {\n    return g: grad(sum(log(x - 2.0)), x)\n}\n", batch=2).check()[1]
    assert (unknown.verdict, unknown.where, unknown.file, unknown.line) == ("unknown", "x", "program.dt", 2)


def test_mistakes_have_the_compilers_message():
    with pytest.raises(dt.CompileError) as raised:
        dt.compile(MISTAKE, name="wrong.dt")
    error = raised.value
    assert (error.file, error.line) == ("wrong.dt", 3)
    assert isinstance(error, ValueError) and isinstance(error, dt.Error)
    assert "wrong.dt:3" in str(error) and "^" in str(error)
    assert error.diagnostics[0].is_error and error.diagnostics[0].text in str(error)


def test_mistakes_beside_what_is_no_utf8(tmp_path):
    path = tmp_path / "wrong.dt"
    path.write_bytes(MISTAKE.encode().replace(b"matmul(x, x)", b"matmul(x, x)  # caf\xe9"))
    with pytest.raises(dt.CompileError, match="caf\ufffd"):
        dt.compile(path)


def test_what_is_no_program(tmp_path):
    with pytest.raises(dt.NotFound):
        dt.compile("no.dt")
    with pytest.raises(dt.NotFound):
        dt.open(tmp_path / "no.dtx")
    (tmp_path / "m.dtx").write_bytes(b"PK\3\4 and no more")
    with pytest.raises(dt.DataLoss):
        dt.open(tmp_path / "m.dtx")
    with pytest.raises(TypeError):
        dt.open(17)
    with pytest.raises(ValueError):
        dt.open("m\0.dtx")


def test_format():
    assert dt.format("const  a=1\n\n\nconst b = 2\n") == "const a = 1\n\nconst b = 2\n"
    with pytest.raises(dt.CompileError, match="net.dt:2"):
        dt.format("const a = 1\nconst b\n", name="net.dt")


def test_diagnostics_as_json():
    with pytest.raises(dt.CompileError) as caught:
        dt.compile(MISTAKE)
    for one in caught.value.diagnostics:
        assert json.loads(one.json)["message"] == one.message and json.loads(one.json)["line"] == one.line


def test_a_program_is_pickled(program, tmp_path):
    path = tmp_path / "net.dtx"
    shutil.copy(dt.compile(PROGRAM, name="net.dt", output=path).path, tmp_path / "copy.dtx")
    opened = dt.open(path)
    for one in (program, opened):
        again = pickle.loads(pickle.dumps(one))
        assert again.steps == one.steps and again.text() == PROGRAM and again.layers == one.layers
        x = np.ones((2, 4), np.float32)
        assert np.array_equal(again.session().predict(x)["label"], one.session().predict(x)["label"])
    dt.compile(PROGRAM.replace("width = 16", "width = 8"), name="net.dt", output=path)
    with pytest.raises(dt.FailedPrecondition, match="another program now"):
        pickle.dumps(opened)


INTERRUPTED = """
import os, signal, sys, threading, time
import dt
what, path, artifact = sys.argv[1:]
program = dt.open(artifact)
run = {"compile": lambda: dt.compile(path, {"depth": 6}), "bench": lambda: program.bench(steps=100_000), "check": lambda: dt.open(artifact).check("large")}[what]
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    run()
except KeyboardInterrupt:
    print(time.monotonic() - began)
"""
DEEP = """
use nn, losses, optimizers
option depth = 1
model Net(x: f32[B, 64]) -> f32[B, 64] {
    for i in 0 .. depth { x = dense(tanh(dense(x, units: 300 + i, activation: gelu)), units: 64, activation: softplus) }
    return x
}
step train(x: f32[B, 64]) { minimize(square(Net(x)), adam(1e-3)) }
step large(x: f32[B, 64]) { minimize(square(Net(x)), adam(1e-3)) }
"""


def test_control_c_ends_what_runs_long_at_once(tmp_path):
    (tmp_path / "deep.dt").write_text(DEEP)
    (tmp_path / "run.py").write_text(INTERRUPTED)
    dt.compile(tmp_path / "deep.dt", {"depth": 4}, output=tmp_path / "deep.dtx", batch=8)
    for what in ("compile", "bench", "check"):
        done = subprocess.run([sys.executable, tmp_path / "run.py", what, tmp_path / "deep.dt", tmp_path / "deep.dtx"], capture_output=True, text=True)
        assert done.returncode == 0 and 0.3 <= float(done.stdout) < 1.3, (what, done.stdout, done.stderr)


def test_sizes_are_checked_before_memory_is_taken(program):
    many = dt.compile(DEEP, {"depth": 8})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(dt.InvalidArgument, match="launches of kernels"):
        many.session(replicas=10**6)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 200_000
    session = dt.compile("step s(x: f32[B]) {\n    return y: x\n}\n").session()
    with pytest.raises(ValueError, match=r"x has 64 rows; a batch of this session has 1 to 1: dt\.compile\(\.\.\., batch=64\)"):
        session.step("s", x=np.zeros(64, np.float32))
    with pytest.raises(ValueError, match="`global_batch` 6 makes one that takes them"):
        program.session(global_batch=4).step("predict", x=np.zeros((6, 4), np.float32))


def test_small_reports_print_readably():
    report = dt.Report({"rate": 1.5e-5, "loss": 0.25, "n": 0.0, "far": -2e7}, epoch=1, step=1, examples=1, seconds=1, examples_per_second=1, data_wait=0)
    assert repr(report).endswith("rate 1.5e-05  loss 0.2500  n 0.0000  far -2e+07")
