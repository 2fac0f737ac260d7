"""Programs: compiled from files and texts, opened, described, refused."""
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
    for text in ("Net/dense", "Net/dense_1", "kernel f32[4, 16]", "131 parameters", "evaluate"):
        assert text in html


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
