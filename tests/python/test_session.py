"""Sessions: who may use one, runs over data, files, the end."""
import logging
import os
import signal
import threading

import dt
import numpy as np
import pytest
from conftest import N_EXAMPLES, examples

TRAIN = {"step": "train", "source": None, "epochs": 1, "pause_after_epochs": 0, "max_steps": 0, "checkpoint_dir": None, "checkpoint_every": 0, "keep": 0,
         "keep_best": None, "stop_after_no_gain": 0, "resume": False, "reduce_on_plateau": None, "log_dir": None, "log_every": 0,
         "log_histograms": 0, "given": None, "validation": None, "tell_every": 0}


def test_training_reports_each_epoch(session):
    training = session.train(epochs=3)
    reports = [report for report in training]
    assert [report.epoch for report in reports] == [1, 2, 3] and session.epoch == 3
    assert reports == training.reports and session.n_steps == reports[-1].step == 18
    assert reports[2]["loss"] < reports[0]["loss"] and set(reports[0]) == {"loss", "accuracy", "evaluate.loss", "evaluate.accuracy"}
    assert reports[0].examples == N_EXAMPLES
    assert session.evaluate() == {"loss": reports[2]["evaluate.loss"], "accuracy": reports[2]["evaluate.accuracy"]}


def test_what_evaluates_or_predicts_does_not_train(session):
    x, label = (array[:8] for array in examples())
    before = {path: session[path] for path in session}
    for run in (lambda: session.evaluate([(x, label)], step="train"), lambda: session.evaluate(step="train"),
                lambda: session.evaluate({"x": x, "label": label}, step="train"), lambda: session.predict(x, label, step="train")):
        with pytest.raises(dt.InvalidArgument, match="step train trains"):
            run()
    assert session.n_steps == 0 and all(np.array_equal(session[path], before[path]) for path in before)


def test_epochs_one_by_one_have_the_bits_of_one_training(program, data):
    once, twice = (program.session(devices="cpu:1x1", data=data, replicas=2) for _ in range(2))
    once.train(epochs=2).run()
    for _ in twice.train(epochs=2):
        twice.evaluate()
    assert all(np.array_equal(once[path], twice[path]) for path in once)


def test_central_storage_has_the_bits_of_mirrored_devices(program, data):
    mirrored, central = (program.session(devices="cpu:3x1", data=data, replicas=4, placement=placement) for placement in ("mirrored", "central"))
    for session in (mirrored, central):
        session.train(epochs=2).run()
    assert all(np.array_equal(mirrored[path], central[path]) for path in mirrored)
    memory = central.memory_of_devices
    assert list(memory) == ["cpu:0", "cpu:1", "cpu:2"] and sum(one["all"] for one in memory.values()) == central.memory_bytes
    assert memory["cpu:0"]["variables"] > 0 == memory["cpu:1"]["variables"] == memory["cpu:1"]["optimizer"]
    forward = program.session(devices="cpu:3x1", data=data, replicas=4, placement="central", forward_only=True)
    assert forward.evaluate() == program.session(devices="cpu:1x1", data=data, replicas=4).evaluate()
    with pytest.raises(ValueError, match='placement "elsewhere": there are "mirrored" and "central"'):
        program.session(placement="elsewhere")
    with pytest.raises(ValueError, match="2 devices, beside the central one, for 1 replica"):
        program.session(devices="cpu:3x1", placement="central")


TABLES = """
use nn, optimizers

option lazy = false

model Taste(user: i32[B]) -> f32[B] { return sum(embedding(user, rows: 1000, width: 4), axis: 1) }

step train(user: i32[B], rating: f32[B]) {
    loss = square(Taste(user) - rating)
    minimize(loss, adam(0.1) if lazy else sgd(0.1))
    report loss: mean(loss)
    return error: loss
}
"""


def test_tables_are_trained_by_rows(tmp_path):
    path = tmp_path / "tables.dt"
    path.write_text(TABLES)
    program, adam = dt.compile(path, batch=8), dt.compile(path, {"lazy": True}, batch=8)
    user, rating = np.array([3, 999, 3, 5, 3, 7, 8, 3], np.int32), np.linspace(-1, 1, 8, dtype=np.float32)
    whole, rows = (program.session(devices="cpu:1x1", by_rows=by_rows) for by_rows in (None, "exact"))
    for n in (8, 3, 8):
        steps = [session.step("train", user=user[:n], rating=rating[:n]) for session in (whole, rows)]
        assert np.array_equal(steps[0]["error"], steps[1]["error"]) and steps[0]["loss"] == steps[1]["loss"]
    assert all(np.array_equal(whole[name], rows[name]) for name in whole)
    with pytest.raises(dt.FailedPrecondition, match="with rows alone the bits are others"):
        adam.session(by_rows="exact")
    lazy = adam.session(devices="cpu:1x1", by_rows="lazy")
    before = lazy["Taste/embedding/table"].copy()
    lazy.step("train", user=user, rating=rating)
    changed = np.flatnonzero((lazy["Taste/embedding/table"] != before).any(axis=1))
    assert changed.tolist() == [3, 5, 7, 8, 999]
    with pytest.raises(ValueError, match='by_rows "each": there are "exact" and "lazy"'):
        program.session(by_rows="each")



FAILING = """
use nn, optimizers

launch rate = 0.1

model Taste(user: i32[B]) -> f32[B] {
    param bias: f32[] = constant(0)
    return sum(embedding(user, rows: 1000, width: 4), axis: 1) + bias
}

step train(user: i32[B], rating: f32[B]) { minimize(square(Taste(user) - rating), sgd(rate)) }
step predict(user: i32[B])               { return rating: Taste(user) }
"""


def test_a_step_that_fails_after_it_has_changed_something_ends_the_session(tmp_path):
    session = dt.compile(FAILING, batch=8).session(by_rows="exact", checkpoints=tmp_path)
    batch = {"user": np.arange(8, dtype=np.int32), "rating": np.ones(8, np.float32)}
    session.step("train", **batch)
    session.launch["rate"] = -0.1  # the bias has taken it when the table refuses it
    with pytest.raises(dt.FailedPrecondition, match="reads the number -"):
        session.step("train", **batch)
    uses = (lambda: session.launch.update(rate=0.1), lambda: session.step("train", **batch), lambda: session.step("predict", user=batch["user"]),
            session.save, lambda: session["Taste/embedding/table"], lambda: session["Taste/bias"])
    for use in uses:
        with pytest.raises(dt.FailedPrecondition, match="failed before"):
            use()
    assert list(tmp_path.glob("step-*")) == []


def test_arrays_train_as_the_programs_data_does(program, data):
    x, y = examples()
    batches = [(x[i:i + 16], y[i:i + 16]) for i in range(0, N_EXAMPLES, 16)]
    session = program.session(devices="cpu:1x1")
    reports = list(session.train(batches, epochs=4, validation=[{"x": x[:5], "y": y[:5]}]))
    assert reports[3]["loss"] < reports[0]["loss"] and reports[0].examples == N_EXAMPLES and "evaluate.accuracy" in reports[0]
    assert session.evaluate(x=x, y=y) == session.evaluate(batches)
    with pytest.raises(ValueError, match="no batches"):
        session.train(iter([]), epochs=1).run()
    with pytest.raises(TypeError, match="1 arrays for 2 inputs: x, y"):
        session.train([x]).run()


def test_prediction_of_many_rows(session):
    x, _ = examples()
    result = session.predict(x)
    assert result["label"].shape == (N_EXAMPLES,) and result["probability"].shape == (N_EXAMPLES, 3)
    assert np.array_equal(result["label"][20:25], session.predict(x=x[20:25])["label"])
    with pytest.raises(TypeError, match="2 arrays for 1 inputs"):
        session.predict(x, x)


def test_checkpoints(program, data, tmp_path):
    session = program.session(devices="cpu:1x1", data=data, checkpoints=tmp_path / "ck")
    session.train(epochs=1).run()
    path = session.save()
    assert os.path.isdir(path)
    kernel = session["Net/dense/kernel"].copy()
    session.train(epochs=1).run()
    later = session["Net/dense/kernel"].copy()
    session.load(path)
    assert np.array_equal(session["Net/dense/kernel"], kernel) and (session.epoch, session.n_steps) == (1, 6)
    other = program.session(devices="cpu:1x1", data=data)
    other.load(path)
    other.train(epochs=1).run()
    assert np.array_equal(other["Net/dense/kernel"], later)
    with pytest.raises(dt.Error):
        session.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="needs a folder"):
        other.save()


def test_control_c_checkpoints(program, data, tmp_path):
    session = program.session(devices="cpu:1x1", data=data, checkpoints=tmp_path)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        session.train(epochs=1_000_000).run()
    timer.join()
    n_steps, kernel = session.n_steps, session["Net/dense/kernel"].copy()
    assert n_steps > 0
    other = program.session(devices="cpu:1x1", data=data)
    other.load(tmp_path)
    assert other.n_steps == n_steps and np.array_equal(other["Net/dense/kernel"], kernel)
    session.train(epochs=1).run()  # it can be gone on with


def test_control_c_in_batches_of_ones_own(program, batch, tmp_path):
    session = program.session(devices="cpu:1x1", checkpoints=tmp_path)

    def batches():
        yield batch
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.train(batches()).run()
    other = program.session(devices="cpu:1x1")
    other.load(tmp_path)
    assert other.n_steps == 1


def test_an_exception_of_the_listener_ends_the_training(session):
    def listener(event):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        session._train(listener, **TRAIN)
    session.train(epochs=1).run()


def test_two_threads_at_once(session, batch):
    raised, shown = [], []

    def step():
        try:
            session.step("train", **batch)
        except dt.FailedPrecondition as error:
            raised.append(error)
        shown.append(repr(session))

    def on_event(event):
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()

    session._train(on_event, **TRAIN)
    assert raised and "in use" in str(raised[0])
    assert shown[0] == "<dt.Session of net, in use elsewhere>" and "6 steps done>" in repr(session)
    session.step("train", **batch)


def test_results_are_those_of_the_step(program, batch, monkeypatch):
    """While a step's results become arrays another thread may run, but step it may not."""
    raised, as_array = [], dt.session._as_array

    def step():
        with pytest.raises(dt.FailedPrecondition, match="in use") as error:
            session.step("train", **batch)
        raised.append(error)

    def as_array_beside_a_step(memory):
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
        return as_array(memory)

    monkeypatch.setattr(dt.session, "_as_array", as_array_beside_a_step)
    session = program.session(devices="cpu:1x1")
    assert session.step("predict", x=batch["x"])["label"].shape == (16,)
    assert len(raised) == 2 and session.n_steps == 0


def test_a_session_that_is_being_closed_is_closed(program):
    """Destroying it releases the GIL: what other threads ask for then is refused as of a closed session, and does not reach what is being freed."""
    for _ in range(20):
        session = program.session(devices="cpu:2x2", replicas=2)
        thread = threading.Thread(target=session.close)
        thread.start()
        with pytest.raises(dt.FailedPrecondition, match="closed"):
            while True:
                session.n_steps
        thread.join()


def test_other_threads_run_during_steps(program, data):
    """Two sessions train in two threads, as they would one after the other."""
    sessions = [program.session(devices="cpu:1x1", data=data) for _ in range(2)]
    threads = [threading.Thread(target=lambda one=one: one.train(epochs=2).run()) for one in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(sessions[0]["Net/dense/kernel"], sessions[1]["Net/dense/kernel"])


def test_a_child_after_fork(session, batch):
    session.step("train", **batch)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            session.step("train", **batch)
        except dt.FailedPrecondition:
            code = 0
        finally:
            del session
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    session.step("train", **batch)


def test_closed(program, batch):
    with program.session(devices="cpu:1x1") as session:
        session.step("train", **batch)
    assert session.closed and "closed" in repr(session)
    session.close()
    for use in (lambda: session.step("train", **batch), lambda: session["Net/dense/kernel"], lambda: session.save("x"), lambda: session.n_steps,
                lambda: session.train(epochs=1).run(), lambda: session.evaluate(), lambda: session.launch["seed"]):
        with pytest.raises(dt.FailedPrecondition, match="closed"):
            use()


def test_wrong_options(program):
    for error, options in ((dt.InvalidArgument, {"devices": "tpu"}), (ValueError, {"replicas": -1}), (ValueError, {"global_batch": 1 << 40}),
                           (TypeError, {"replicas": "2"}), (TypeError, {"replica": 2}), (OverflowError, {"seed": 1 << 70})):
        with pytest.raises(error):
            program.session(**options)
    with pytest.raises(ValueError, match="epochs is 0"):
        program.session().train(epochs=0)
    with pytest.raises(dt.Error):
        program.session(data="/nowhere").train(epochs=1).run()


def test_forward_only(program, batch):
    session = program.session(devices="cpu:1x1", forward_only=True)
    assert session.step("predict", x=batch["x"])["label"].shape == (16,)
    with pytest.raises(dt.Error):
        session.step("train", **batch)


def test_launch_values(session):
    session.launch["epochs"] = 7
    assert session.launch["epochs"] == 7
    with pytest.raises(dt.NotFound):
        session.launch["rate"] = 1
    with pytest.raises(TypeError):
        session.launch["epochs"] = "many"


def test_bars_and_tables(session, capsys):
    training = session.train(epochs=2, progress=True).run()
    shown = capsys.readouterr().err
    assert "train 2/2" in shown and "6/6" in shown and "loss=" in shown
    session.train(epochs=1, progress=False).run()
    assert capsys.readouterr().err == ""
    html = training._repr_html_()
    assert html.count("<tr>") == 3 and html.count("<svg") == 2 and "evaluate.accuracy" in html
    assert "epoch 2" in repr(training)


def test_log(program, data, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="dt")
    program.session(devices="cpu:1x1", data=data, checkpoints=tmp_path).train(epochs=1).run()
    assert any(record.getMessage().startswith("checkpoint ") for record in caplog.records)


def test_messages_name_arguments_and_what_was_meant(program, tmp_path):
    with program.session(data=tmp_path) as session:
        with pytest.raises(dt.NotFound, match=r"name the folder that holds it with `data`"):
            session.train().run()
        with pytest.raises(dt.NotFound, match=r"no variable 'Net.dens.kernel': did you mean 'Net/dense/kernel'\?"):
            session["Net.dens.kernel"]
        with pytest.raises(dt.NotFound, match=r"no variable 'qqq': program.variables has their paths"):
            session["qqq"] = np.zeros(3, np.float32)
        with pytest.raises(dt.InvalidArgument, match=r"not f32\[4\]: the first dimension is that of the batch, 1 of one example"):
            session.step("predict", x=np.zeros(4, np.float32))
        with pytest.raises(dt.NotFound, match="has no data q; `data` picks one of its own"):
            session.train(data="q").run()
    with pytest.raises(dt.InvalidArgument, match="^timeline_steps is -1$"):
        program.session(timeline_steps=-1)
    with pytest.raises(dt.InvalidArgument, match="use `replicas` 4, or fewer `devices`"):
        program.session(devices="cpu:4x1", replicas=2)
    with pytest.raises(dt.InvalidArgument, match=r"dt\.compile\(\.\.\., batch=512\)"):
        program.session(global_batch=512)


def test_processes_of_a_run_of_one(program):
    with dt.Processes() as processes:
        assert (processes.number, processes.count) == (0, 1)
        with program.session(processes=processes) as session:
            assert session.rows == slice(0, session.global_batch)
            with pytest.raises(dt.FailedPrecondition, match="1 session of these processes is there"):
                processes.close()
    with pytest.raises(dt.FailedPrecondition, match="the processes are closed"):
        program.session(processes=processes)


def test_a_folder_of_logs_is_of_one_training(program, data, tmp_path):
    logs = tmp_path / "logs"
    with program.session(devices="cpu:1x1", data=data, checkpoints=tmp_path / "ck") as first:
        first.train(epochs=1, log_dir=logs).run()
        first.train(epochs=1).run()
        first.train(epochs=1, log_dir=logs).run()  # its own past
    lines = (logs / "run.jsonl").read_text()
    with program.session(devices="cpu:1x1", data=data) as other:
        other.train(epochs=1).run()
        with pytest.raises(dt.AlreadyExists, match="there is a run already"):
            other.train(epochs=1, log_dir=logs).run()
        assert (logs / "run.jsonl").read_text() == lines
        other.load(tmp_path / "ck")
        other.train(epochs=1, log_dir=logs).run()  # goes on with it
    assert (logs / "run.jsonl").read_text().startswith(lines)


GAN = """
use nn, losses, optimizers

model Critic(x: f32[B, 2]) -> f32[B] { return dense(x, units: 1)[:, 0] }
model Maker(z: f32[B, 1]) -> f32[B, 2] { return dense(z, units: 2) }

step critic(x: f32[B, 2], z: f32[B, 1]) {
    minimize(square(Critic(x) - 1) + square(Critic(stop_gradient(Maker(z)))), sgd(0.1))
    report loss: mean(square(Critic(x) - 1))
}

step maker(z: f32[B, 1]) {
    minimize(square(Critic(Maker(z)) - 1), sgd(0.1))
    report loss: mean(square(Critic(Maker(z)) - 1))
}
"""


def test_steps_of_ones_own_loop_report_together():
    session = dt.compile(GAN, batch=8).session(devices="cpu:1x1")
    random = np.random.default_rng(0)
    for epoch in (1, 2):
        losses = []
        with session.gather("critic", "maker") as report:
            for n in (8, 8, 5):
                for _ in range(2):
                    losses.append((n, session.step("critic", x=random.random((n, 2), np.float32), z=random.random((n, 1), np.float32))["loss"]))
                session.step("maker", z=random.random((n, 1), np.float32))
        assert report["critic.loss"] == pytest.approx(sum(n * loss for n, loss in losses) / 42, rel=1e-5)
        assert set(report) == {"critic.loss", "maker.loss"} and report.epoch == epoch and report.step == 9 * epoch + epoch - 1 and report.examples == 42
        kept = dict(report)
        session.step("maker", z=np.ones((1, 1), np.float32))
        assert dict(report) == kept
    with pytest.raises(dt.NotFound, match="there is no step 'nosuch'"):
        session.gather("nosuch")
    with session.gather("maker") as alone:
        session.step("maker", z=np.ones((1, 1), np.float32))
    assert set(alone) == {"loss"} and "loss" in repr(alone)
