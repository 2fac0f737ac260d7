"""What dtrun's commands make, from Python: logs and reports, text, data, timelines, benches, exports."""
import json
import logging

import dt
import numpy as np
import pytest

TEXT = """
step sample(text: u8[B, 8], length: i32[B]) {
    return next: gather(text, length - 5, axis: 1)
}

model Letters(token: i32[B]) -> f32[B, 256] {
    param table: f32[256, 256] = normal(stddev: 2)
    return table[token]
}

step draw(text: u8[B, 4], length: i32[B], temperature: f32[B]) {
    logits = Letters(i32(gather(text, length - 1, axis: 1)))
    return next: u8(sample_categorical(logits, temperature[:, newaxis]))
}
"""


def test_a_training_is_logged_and_reported(program, data, tmp_path):
    session = program.session(data=data, measure_kernels=True)
    reports = list(session.train(epochs=2, log_dir=tmp_path / "logs", log_every=2, log_histograms=1))
    events = [json.loads(line) for line in (tmp_path / "logs/run.jsonl").read_text().splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "epoch" and event["step"] == "train"]
    assert losses == [report["loss"] for report in reports]
    assert any(event["event"] == "times" for event in events)
    dt.report(tmp_path / "logs", output=tmp_path / "report.html")
    assert "<svg" in (tmp_path / "report.html").read_text()
    with pytest.raises(dt.AlreadyExists, match="logs"):
        list(program.session(data=data).train(log_dir=tmp_path / "logs"))
    with pytest.raises(dt.NotFound):
        dt.report(tmp_path / "nothing", output=tmp_path / "none.html")


def test_the_first_infinity_is_traced(program, data):
    session = program.session(data=data, check_numerics=True)
    session["Net/dense/kernel"] = np.full((4, 16), 3e38, np.float32)
    with pytest.raises(dt.OutOfRange, match=r"net\.dt:\d+"):
        list(session.train())


def test_text(tmp_path):
    program = dt.compile(TEXT, name="text.dt")
    session = program.session(seed=3)
    assert session.generate("hello", length=7) == "hellohellohe"
    assert session.generate(b"\xff\xfe\x80\x01z", length=5) == b"\xff\xfe\x80\x01z" * 2
    parts = []
    first = session.generate(b"a", step="draw", length=40, temperature=0.5, made=parts.append)
    assert b"".join(parts) == first and len(parts) == 41
    assert session.generate(b"a", step="draw", length=40, temperature=0.5) == first
    with pytest.raises(ZeroDivisionError):
        session.generate("hello", made=lambda _: 1 / 0)
    with pytest.raises(dt.InvalidArgument, match="temperature"):
        session.generate("hello", temperature=1)
    with pytest.raises(dt.InvalidArgument, match="empty"):
        session.generate("")
    with pytest.raises(ValueError, match="length"):
        session.generate("hello", length=0)
    with pytest.raises(ValueError, match="null"):
        session.generate("a\0b")


def test_data(session, data, tmp_path):
    session.write_data(tmp_path / "seen", batches=2)
    assert np.load(tmp_path / "seen/batch-rows.npy").tolist() == [16, 16]
    seen, all_rows = np.load(tmp_path / "seen/x.npy"), np.load(data / "x.npy")
    assert seen.shape == (32, 4) and {row.tobytes() for row in seen} <= {row.tobytes() for row in all_rows}


def test_a_timeline(program, data, tmp_path):
    session = program.session(data=data, timeline_steps=4)
    list(session.train())
    session.write_timeline(tmp_path / "timeline.json")
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert sum(event.get("cat") == "step" for event in events) >= 4
    with pytest.raises(dt.FailedPrecondition, match="timeline_steps"):
        program.session().write_timeline(tmp_path / "none.json")


def test_texts(program):
    assert "step train(" in program.info()
    assert "--devices cpu" in dt.devices()
    result = program.bench(steps=3, replicas=2)
    assert result["steps"] == 3 and result["replicas"] == 2 and result["kernels"]
    with pytest.raises(dt.NotFound, match="trian"):
        program.bench("trian")


def test_weights_for_elsewhere(session, tmp_path, caplog):
    saved = session.save(tmp_path)
    (tmp_path / "names.txt").write_text("first -> Net/dense/kernel : o i -> i o\n")
    with caplog.at_level(logging.WARNING, "dt"):
        said = dt.export_weights(saved, tmp_path / "theirs.safetensors", map=tmp_path / "names.txt", allow_missing=True)
    assert "first f32[16, 4]" in said
    size = int.from_bytes((tmp_path / "theirs.safetensors").read_bytes()[:8], "little")
    header = json.loads((tmp_path / "theirs.safetensors").read_bytes()[8:8 + size])
    assert header["first"]["shape"] == [16, 4]
