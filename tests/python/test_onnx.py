"""ONNX models from Python: of a session's variables, of a checkpoint of an artifact that was opened, and of steps that cannot be one."""
import dt
import numpy as np
import pytest

PROGRAM = """
use nn, losses, optimizers

model Net(x: f32[B, 3]) -> f32[B, 2] { return dense(x, units: 2) }

step train(x: f32[B, 3], y: f32[B, 2]) { minimize(square(Net(x) - y), sgd(learning_rate: 0.5)) }
step predict(x: f32[B, 3]) { return y: Net(x) }
step noisy(x: f32[B, 3]) { return y: dropout(Net(x), rate: 0.5, training: true) }
"""


def test_a_session_and_its_checkpoint_are_one_model(tmp_path):
    program = dt.compile(PROGRAM, batch=4, output=tmp_path / "net.dtx", name="net.dt")
    with program.session(seed=3) as session:
        program.export_onnx(session, tmp_path / "before.onnx")
        session.step("train", x=np.ones((4, 3), np.float32), y=np.zeros((4, 2), np.float32))
        program.export_onnx(session, tmp_path / "session.onnx")
        kernel = session["Net/dense/kernel"].tobytes()
        saved = session.save(tmp_path / "checkpoints")
    dt.open(tmp_path / "net.dtx").export_onnx(saved, tmp_path / "opened.onnx", step="predict")
    model = (tmp_path / "session.onnx").read_bytes()
    assert model == (tmp_path / "opened.onnx").read_bytes()
    assert kernel in model and kernel not in (tmp_path / "before.onnx").read_bytes()


def test_what_is_no_model_is_said(tmp_path):
    program = dt.compile(PROGRAM, batch=4)
    with program.session() as session:
        with pytest.raises(dt.CompileError, match="ONNX has no operator for random_uniform") as error:
            program.export_onnx(session, tmp_path / "noisy.onnx", step="noisy")
        assert error.value.file == "program.dt" and error.value.line == 8
        with pytest.raises(dt.CompileError, match="the step train updates Net/dense/"):
            program.export_onnx(session, tmp_path / "train.onnx", step="train")
        with pytest.raises(dt.NotFound, match="there are: train, predict, noisy"):
            program.export_onnx(session, tmp_path / "none.onnx", step="none")
    with pytest.raises(dt.NotFound):
        program.export_onnx(tmp_path / "nothing.safetensors", tmp_path / "nothing.onnx")
    assert not list(tmp_path.glob("*.onnx"))
