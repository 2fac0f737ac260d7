"""Data of one's own: arrays have the bits of files, batches of all kinds train, evaluate and predict, and all that a training can do it does with them."""
import json
import logging
import os
import pathlib
import subprocess

import dt
import numpy as np
import pytest
from conftest import N_EXAMPLES, PROGRAM, examples

DTRUN = pathlib.Path(os.environ["DT_BUILD"]) / "dtrun"


def arrays():
    x, y = examples()
    return {"x": x, "y": y}


def batches(n=16):
    x, y = examples()
    return [(x[i:i + n], y[i:i + n]) for i in range(0, N_EXAMPLES, n)]


def same(one, other):
    return all(np.array_equal(one[path], other[path]) for path in one)


def create(program, folder=None, **options):
    return program.session(devices="cpu:1x1", checkpoints=folder, **options)


@pytest.mark.parametrize("shuffle", [True, False])
def test_arrays_have_the_bits_of_files_by_dtrun(tmp_path, data, shuffle):
    text = PROGRAM if shuffle else PROGRAM.replace(" | shuffle(96)", "")
    (tmp_path / "net.dt").write_text(text.replace("batch(16)", "batch(18)"))
    program = dt.compile(tmp_path / "net.dt", output=tmp_path / "net.dtx")
    subprocess.run([DTRUN, "train", tmp_path / "net.dtx", "--data", data, "--epochs", "3", "--seed", "7", "--devices", "cpu:1x1", "--checkpoint-dir",
                    tmp_path / "files"], check=True, capture_output=True)
    x, y = examples()
    strided = {"y": np.repeat(y, 2)[::2], "x": np.asfortranarray(x)}
    whole = create(program, tmp_path / "whole", seed=7)
    whole.train(strided, shuffle=shuffle, epochs=3).run()
    parts = create(program, tmp_path / "parts", seed=7)
    parts.train((x, y), batch_size=18, shuffle=shuffle, epochs=3, max_steps=8).run()
    again = create(program, tmp_path / "parts", seed=7)
    again.load()
    reports = again.train(arrays(), shuffle=shuffle, epochs=2).run().reports
    assert [report.epoch for report in reports] == [2, 3] and reports[0].examples == N_EXAMPLES and again.n_steps == 18
    for folder in ("whole", "parts"):
        for file in ("model.safetensors", "optimizer.safetensors"):
            assert (tmp_path / folder / "step-18" / file).read_bytes() == (tmp_path / "files/step-18" / file).read_bytes(), folder


def test_all_that_a_training_does_it_does_with_arrays(program, tmp_path):
    session = create(program, tmp_path / "ck")
    training = session.train(arrays(), validation=arrays(), epochs=9, keep=1, keep_best="evaluate.accuracy", stop_after_no_gain=2, checkpoint_every=4,
                             log_dir=tmp_path / "log", log_every=2, log_histograms=1).run()
    assert len(training.reports) < 9 and session.epoch == len(training.reports)
    best = max(report["evaluate.accuracy"] for report in training.reports)
    first = next(report for report in training.reports if report["evaluate.accuracy"] == best)
    kept = {int(path.name[5:]) for path in (tmp_path / "ck").glob("step-*")}
    assert first.step in kept and len(kept) == 2
    lines = [json.loads(line) for line in (tmp_path / "log/run.jsonl").read_text().splitlines()]
    assert {"start", "step", "epoch", "end"} <= {line["event"] for line in lines}
    assert next(line for line in lines if line["event"] == "start")["examples"] == N_EXAMPLES
    dt.report(tmp_path / "log", output=tmp_path / "page.html")
    assert "accuracy" in (tmp_path / "page.html").read_text()
    assert session.evaluate(arrays()) == session.evaluate(batches()) == session.evaluate(**arrays())


class Loader:
    """As torchdata's StatefulDataLoader: it goes on where its state says."""

    def __init__(self):
        self.at = self.start = 0

    def __len__(self):
        return N_EXAMPLES // 16

    def __iter__(self):
        begin, self.start = self.start, 0
        for self.at, batch in enumerate(batches()[begin:], begin + 1):
            yield {"y": batch[1], "x": batch[0]}

    def state_dict(self):
        return {"at": self.at, "random": (np.arange(3, dtype=np.uint8), b"\0\1"), 7: [1.5, None]}

    def load_state_dict(self, state):
        assert state[7] == [1.5, None] and state["random"][1] == b"\0\1" and state["random"][0].tolist() == [0, 1, 2]
        self.start = state["at"]


KINDS = {"list": batches, "loader": Loader, "function": lambda: lambda: iter(batches()), "generator": lambda: (batch for batch in batches() * 2)}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_all_kinds_train(program, tmp_path, caplog, kind):
    caplog.set_level(logging.INFO, "dt")
    whole = create(program, tmp_path / "whole")
    epochs = 1 if kind == "generator" else 2
    reports = whole.train(KINDS[kind](), validation=batches(), epochs=epochs).run().reports
    assert whole.epoch == epochs and whole.n_steps == 12 and "evaluate.loss" in reports[-1]
    by_arrays = create(program)
    by_arrays.train(arrays(), shuffle=False, epochs=2).run()
    assert same(whole, by_arrays)
    if kind == "generator":
        return
    create(program, tmp_path / "parts").train(KINDS[kind](), epochs=2, max_steps=8).run()
    again = create(program, tmp_path / "parts")
    again.load()
    again.train(KINDS[kind](), epochs=1).run()
    anew = "cannot be entered in the middle" in caplog.text
    assert anew == (kind == "function") and again.n_steps == (14 if anew else 12) and (anew or same(again, by_arrays))


def test_torch_loaders_train(program):
    torch = pytest.importorskip("torch")
    x, y = (torch.from_numpy(array) for array in examples())
    by_arrays = create(program)
    by_arrays.train(arrays(), shuffle=False).run()
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16, num_workers=workers)
        session = create(program)
        session.train(loader).run()
        assert same(session, by_arrays)


def test_predict_takes_batches_too(program):
    session = create(program)
    x, _ = examples()
    whole = session.predict(x)["probability"]
    assert np.array_equal(session.predict([x[i:i + 16] for i in range(0, N_EXAMPLES, 16)])["probability"], whole)
    assert np.array_equal(session.predict(lambda: ({"x": x[i:i + 12]} for i in range(0, N_EXAMPLES, 12)))["probability"], whole)


def test_what_does_not_apply_is_an_error(program, tmp_path):
    session = create(program, tmp_path)
    x, y = examples()
    for error, said, run in (
            (TypeError, "batch_size", lambda: session.train(batch_size=16)),
            (TypeError, "for arrays, and batches are given", lambda: session.train(batches(), shuffle=True)),
            (TypeError, "names data of the program", lambda: session.train(arrays(), data="train_set")),
            (ValueError, "has 1 to 16", lambda: session.train(arrays(), batch_size=17).run()),
            (dt.NotFound, "evaluate.nope is no report", lambda: session.train(arrays(), validation=arrays(), keep_best="evaluate.nope").run()),
            (dt.NotFound, "evaluate.loss is no report", lambda: session.train(arrays(), keep_best="evaluate.loss").run()),
            (ValueError, "y has 95 rows, and x 96", lambda: session.train({"x": x, "y": y[:95]}).run()),
            (TypeError, 'astype\\("uint8"\\)', lambda: session.train((x, y.astype(np.int64))).run()),
            (TypeError, "with x, z: it takes x, y", lambda: session.train({"x": x, "z": y}).run()),
            (TypeError, "1 arrays for 2 inputs", lambda: session.train([(x[:16],)]).run()),
            (TypeError, "gives no batches", lambda: session.train(5).run()),
            (ValueError, "there are no batches", lambda: session.train([]).run()),
            (ValueError, "there are no batches", lambda: session.train(iter(batches()), epochs=2).run()),
            (TypeError, "of what is written to log_dir", lambda: session.train(arrays(), log_every=1)),
            (TypeError, "no folder of checkpoints", lambda: create(program).train(arrays(), keep=1)),
            (dt.InvalidArgument, "step evaluate", lambda: session.train(arrays(), step="evaluate").run())):
        with pytest.raises(error, match=said):
            run()


def test_an_exception_in_the_data_is_raised(program):
    def broken():
        yield batches()[0]
        raise KeyError("camera")
    session = create(program)
    with pytest.raises(KeyError, match="camera"):
        session.train(broken).run()
    assert session.n_steps == 1
