"""Callbacks: when they are called, what they may do, and what they may not."""
import json
import sys
import types

import dt
import numpy as np
import pytest
from conftest import PROGRAM, examples


@pytest.fixture(scope="module")
def rated():
    return dt.compile("launch rate = 1e-2\n" + PROGRAM.replace("learning_rate: 1e-2", "learning_rate: rate"), name="rated.dt")


def arrays():
    return dict(zip("xy", examples()))


class Listener:
    def __init__(self):
        self.heard = []

    def epoch(self, moment):
        self.heard.append((moment.kind, moment.step, moment.epoch, moment.epochs, moment.steps_per_epoch, sorted(moment.values)))

    evaluation = checkpoint = epoch

    def end(self, moment):
        self.heard.append((moment.kind, moment.reason))


def test_objects_and_functions_are_called_at_their_moments(rated, tmp_path):
    session, listener, kinds = rated.session(devices="cpu:1x1", checkpoints=tmp_path), Listener(), []
    session.train(arrays(), validation=arrays(), epochs=2, callbacks=[listener, lambda moment: kinds.append((moment.kind, moment.step))]).run()
    told = [("epoch", 6 * e, e, 2, 6, ["accuracy", "loss"]) for e in (1, 2)]
    assert [one for one in listener.heard if one[0] == "epoch"] == told and listener.heard[-1] == ("end", "epochs")
    assert [one[0] for one in listener.heard].count("checkpoint") == 2
    assert [one[5] for one in listener.heard if one[0] == "evaluation"] == [["evaluate.accuracy", "evaluate.loss"]] * 2
    assert [step for kind, step in kinds if kind == "step"] == list(range(1, 13)) and kinds[-1] == ("end", 12)


def test_a_callback_stops_sets_launch_values_and_logs(rated, tmp_path):
    session = rated.session(devices="cpu:1x1")
    before = {}

    def act(moment):
        if moment.kind == "step" and moment.step == 2:
            before.update({path: array.copy() for path, array in ((path, moment.session[path]) for path in session) if "rate" not in path})
            moment.session.launch["rate"] = 0
        if moment.kind == "step" and moment.step == 5:
            assert all(np.array_equal(session[path], array) for path, array in before.items() if path.endswith(("kernel", "bias")))
            moment.log_scalar("norm/kernel", np.linalg.norm(session["Net/dense/kernel"]))
            moment.log_image("kernel", np.random.default_rng(0).random((4, 16)))
            moment.log_image("bytes", np.zeros((3, 5, 3), np.uint8)[:, ::-1])
            with pytest.raises(dt.FailedPrecondition, match="is the run's while it trains"):
                session.launch["counter"] = 7
            with pytest.raises(dt.FailedPrecondition, match="in use"):
                session.step("train", **arrays())
            with pytest.raises(dt.InvalidArgument, match="an image"):
                moment.log_image("wrong", np.zeros((2, 2, 2)))
        if moment.step == 8:
            moment.stop()

    reports = session.train(arrays(), epochs=9, callbacks=act, log_dir=tmp_path / "log").run().reports
    assert session.n_steps == 8 and reports[-1].examples == 32 and session.launch["rate"] == 0
    lines = [json.loads(line) for line in (tmp_path / "log/run.jsonl").read_text().splitlines()]
    scalar, = [line for line in lines if line["event"] == "scalar"]
    assert scalar["number"] == 5 and scalar["norm/kernel"] == pytest.approx(float(np.linalg.norm(before["Net/dense/kernel"])))
    assert [(line["name"], line["number"], line["width"], line["height"]) for line in lines if line["event"] == "picture"] == [
        ("kernel", 5, 16, 4), ("bytes", 5, 5, 3)]
    assert not any(line["event"] == "step" for line in lines)
    assert sum(b"norm/kernel" in events.read_bytes() for events in (tmp_path / "log").glob("events.*")) == 1
    dt.report(tmp_path / "log", output=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "norm/kernel" in page and 'alt="kernel' in page
    with pytest.raises(dt.FailedPrecondition, match="nowhere to write it"):
        session.train(arrays(), callbacks=lambda moment: moment.log_scalar("x", 1)).run()


def test_the_end_is_told_once_however_it_comes(rated):
    for end, act in (("error", lambda training: training.run()), ("left", lambda training: [next(training), training._next.close()])):
        listener, session = Listener(), rated.session(devices="cpu:1x1")
        if end == "error":
            def fail(moment):
                if moment.step == 3:
                    raise KeyError("camera")
            with pytest.raises(KeyError, match="camera"):
                act(session.train(arrays(), epochs=3, callbacks=[listener, fail]))
        else:
            act(session.train(arrays(), epochs=3, callbacks=listener))
        assert [one for one in listener.heard if one[0] == "end"] == [("end", end)]
    with pytest.raises(TypeError, match="is no callback"):
        session.train(arrays(), callbacks=[5])


def test_ready_ones_call_their_packages(rated, monkeypatch):
    logged = []
    run = types.SimpleNamespace(log=lambda values, step: logged.append((sorted(values), step)), finish=lambda: logged.append("finished"))
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda **options: logged.append(options) or run))
    rated.session(devices="cpu:1x1").train(arrays(), validation=arrays(), callbacks=dt.callbacks.Wandb(project="p")).run()
    assert logged == [{"project": "p"}, (["accuracy", "loss"], 6), (["evaluate.accuracy", "evaluate.loss"], 6), "finished"]
