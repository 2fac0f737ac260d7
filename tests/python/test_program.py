"""Programs: compiled from files and texts, opened, described, refused."""
import json

import dt
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
