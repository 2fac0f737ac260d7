"""Arrays that steps take and give: buffers and DLPack without copies; wrong ones are exceptions, and leave the session as it was."""
import ctypes
import gc
import resource
import tracemalloc

import dt
import numpy as np
import pytest
from conftest import PROGRAM

TYPES = """
step echo(a: f32[B, 2], b: f64[B], c: i8[B], d: u8[B], e: i32[B], f: i64[B], g: bool[B], h: f16[B, 3]) {
    return ra: a + 1, rb: b + 1, rc: c + 1, rd: d + 1, re: e + 1, rf: f + 1, rg: not g, rh: h + 1
}
"""


class ByDLPack:
    """An array that has DLPack, and no buffer."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnDevice(ByDLPack):
    def __dlpack_device__(self):
        return 2, 0


def test_step_gives_reports_and_results(session, batch):
    report = session.step("train", **batch)
    assert set(report) == {"loss", "accuracy"} and isinstance(report["loss"], float)
    result = session.step("predict", x=batch["x"][:5])
    assert result["label"].shape == (5,) and result["label"].dtype == np.int64
    np.testing.assert_allclose(result["probability"].sum(axis=1), 1, atol=1e-6)


def test_reports_with_a_shape_are_arrays(tmp_path):
    program = dt.compile("""
use optimizers
data rows = npy("x.npy") | batch(4)
model Scale(x: f32[B, 3]) -> f32[B, 3] {
    param factor: f32[3] = ones()
    return x * factor
}
step train(x: f32[B, 3]) from rows {
    minimize(Scale(x) ** 2, sgd())
    report loss: mean(x), columns: mean(x, axis: 0), products: sum(x[:, :, newaxis] * x[:, newaxis], axis: 0)
}
""")
    x = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    session = program.session(data=tmp_path)
    report = next(session.train(epochs=1))
    np.testing.assert_allclose(report["columns"], x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(report["products"], x.T @ x, rtol=1e-5)
    assert isinstance(report["loss"], float) and "columns" not in repr(report) and report["products"].dtype == np.float64
    again = session.step("train", x=x[:4])
    np.testing.assert_allclose(again["columns"], x[:4].mean(0), rtol=1e-5)


def test_any_kind_of_array_gives_the_same(session, batch):
    wanted = session.step("evaluate", **batch)
    x, y = batch["x"], batch["y"]
    strided, reversed_rows = np.repeat(x, 2, axis=0)[::2], x[::-1].copy()[::-1]
    read_only = x.copy()
    read_only.flags.writeable = False
    for same in (np.asfortranarray(x), strided, reversed_rows, read_only, memoryview(x), ByDLPack(x), ByDLPack(strided)):
        assert session.step("evaluate", x=same, y=y) == wanted
    assert session.step("evaluate", x=x, y=bytes(y)) == wanted


def test_every_type_there_and_back():
    session = dt.compile(TYPES, batch=4).session()
    types = {"a": np.float32, "b": np.float64, "c": np.int8, "d": np.uint8, "e": np.int32, "f": np.int64, "g": np.bool_, "h": np.float16}
    random = np.random.default_rng(0)
    arrays = {name: random.integers(0, 2, (3, {"a": 2, "h": 3}[name]) if name in "ah" else 3).astype(dtype) for name, dtype in types.items()}
    results = session.step("echo", **arrays)
    by_dlpack = session.step("echo", **{name: ByDLPack(array) for name, array in arrays.items()})
    for name, array in arrays.items():
        result = results[f"r{name}"]
        assert result.dtype == array.dtype and np.array_equal(result, by_dlpack[f"r{name}"])
        np.testing.assert_array_equal(result, ~array if name == "g" else array + array.dtype.type(1))
        with pytest.raises(TypeError, match=f"{name} takes {array.dtype}, not"):
            session.step("echo", **{**arrays, name: array.astype(np.float32 if name != "a" else np.float64)})


def test_wrong_arrays_are_exceptions(session, batch):
    x, y = batch["x"], batch["y"]
    before = session["Net/dense/kernel"].copy()
    for error, message, arrays in (
            (TypeError, r"train: x takes float32, not float64.*astype\(\"float32\"\)", {"x": x.astype(np.float64), "y": y}),
            (TypeError, "y takes uint8, not int64", {"x": x, "y": y.astype(np.int64)}),
            (TypeError, "not int64", {"x": x, "y": ByDLPack(y.astype(np.int64))}),
            (TypeError, "format", {"x": x.astype(np.complex64), "y": y}),
            (TypeError, "format", {"x": x.astype(">f4"), "y": y}),
            (TypeError, "on a device", {"x": OnDevice(x), "y": y}),
            (TypeError, "list has neither", {"x": [[1.0] * 4], "y": y}),
            (TypeError, "no array for input 'y': it takes x, y", {"x": x}),
            (TypeError, "no input 'z': it takes x, y", {"x": x, "y": y, "z": y}),
            (ValueError, "x", {"x": x[:, :3], "y": y}),
            (ValueError, "x", {"x": x[0], "y": y}),
            (ValueError, "rows", {"x": x[:3], "y": y}),
            (ValueError, "rows", {"x": x[:0], "y": y[:0]}),
            (ValueError, "rows|batch", {"x": np.concatenate([x, x]), "y": np.concatenate([y, y])})):
        with pytest.raises(error, match=message):
            session.step("train", **arrays)
    with pytest.raises(dt.NotFound, match="no step 'tran': the program has train, evaluate, predict"):
        session.step("tran", **batch)
    with pytest.raises(TypeError, match="by name"):
        session.step("train", x, y)
    with pytest.raises(TypeError, match="by name"):
        session.step()
    assert session.n_steps == 0 and np.array_equal(session["Net/dense/kernel"], before)


def test_view_is_read_only_and_where_the_variable_is(session, batch):
    view = session["Net/dense/kernel"]
    assert not view.flags.writeable and view.shape == (4, 16)
    before = view.copy()
    session.step("train", **batch)
    assert not np.array_equal(view, before) and np.array_equal(view, session["Net/dense/kernel"])
    with pytest.raises(ValueError):
        view[0, 0] = 1


def test_view_keeps_the_session(program, batch):
    session = program.session(devices="cpu:1x1")
    view = session["Net/dense/kernel"]
    expected = view.copy()
    with pytest.raises(BufferError, match="1 views"):
        session.close()
    del session
    gc.collect()
    assert np.array_equal(view, expected)


def test_writes(session):
    kernel = np.arange(64, dtype=np.float32).reshape(4, 16)
    session["Net/dense/kernel"] = kernel
    assert np.array_equal(session["Net/dense/kernel"], kernel)
    session["Net/dense/kernel"] = kernel.T.copy().T  # not contiguous
    assert np.array_equal(session["Net/dense/kernel"], kernel)
    for error, path, array in ((TypeError, "Net/dense/kernel", kernel.astype(np.float64)), (ValueError, "Net/dense/kernel", kernel[:3]),
                               (dt.NotFound, "Net/dens", kernel), (TypeError, 3, kernel)):
        with pytest.raises(error):
            session[path] = array
    with pytest.raises(TypeError, match="deleted"):
        del session["Net/dense/kernel"]
    assert np.array_equal(session["Net/dense/kernel"], kernel)


def test_nothing_leaks(program, batch):
    session = program.session(devices="cpu:1x1")
    wrong = {"x": batch["x"].astype(np.float64), "y": batch["y"]}

    def work():
        for _ in range(200):
            session.step("train", **batch)
            session.step("predict", x=batch["x"])
            session.step("predict", x=ByDLPack(np.asfortranarray(batch["x"])))
            session["Net/dense/kernel"] = session["Net/dense/kernel"].copy()
            for arrays in (wrong, {"x": batch["x"]}):
                with pytest.raises(TypeError):
                    session.step("train", **arrays)
        for _ in range(5):
            program.session(devices="cpu:1x1").step("train", **batch)

    work()
    tracemalloc.start()
    before, resident = tracemalloc.get_traced_memory()[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        work()
    gc.collect()
    after, later = tracemalloc.get_traced_memory()[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.stop()
    assert after - before < 50_000 and later - resident < 4096, (after - before, later - resident)


def test_inputs_that_are_named_like_parameters():
    program = dt.compile("step evaluate(step: f32[B], data: f32[B], name: f32[B]) {\n    report total: sum(step * name)\n    return sum: step + data + name\n}\n",
                         batch=4)
    session = program.session(devices="cpu:1x1")
    arrays = {"step": np.float32([1, 2, 3, 4, 5]), "data": np.ones(5, np.float32), "name": np.ones(5, np.float32)}
    batch = {name: array[:4] for name, array in arrays.items()}
    assert session.step("evaluate", batch)["sum"].tolist() == [3, 4, 5, 6]
    assert session.step("evaluate", **batch)["total"] == 10
    assert session.evaluate(arrays) == {"total": 15}
    assert session.predict(arrays, step="evaluate")["sum"].tolist() == [3, 4, 5, 6, 7]
    for wrong in ({1: batch["step"]}, [batch["step"]], {"stap": batch["step"]}):
        with pytest.raises(TypeError, match="stap|by name|have names"):
            session.step("evaluate", wrong)
    with pytest.raises(TypeError, match="as one mapping"):
        session.step("evaluate", batch, **batch)


def test_arrays_in_fortrans_order(session, batch):
    expected = session.step("predict", x=batch["x"])["probability"]
    assert (session.step("predict", x=np.asfortranarray(batch["x"]))["probability"] == expected).all()
    kernel = np.arange(64, dtype=np.float32).reshape(4, 16)
    session["Net/dense/kernel"] = np.asfortranarray(kernel)
    assert (session["Net/dense/kernel"] == kernel).all()


def test_who_asks_for_fortrans_order_is_refused(session):
    """Unless it is C's as well."""
    f_contiguous, view = 0x40 | 0x10 | 0x08, ctypes.create_string_buffer(256)
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release

    def ask(path):
        get(ctypes.py_object(dt._dt.Session.__getitem__(session, path)), view, f_contiguous)
        release(view)

    ask("Net/dense/bias")
    with pytest.raises(BufferError, match="asfortranarray"):
        ask("Net/dense/kernel")


CSV = """
data rows = csv("a.csv", target: 1) | batch(2)

step s(x: f32[B, 1], y: f32[B]) from rows {
    report sum: sum(x[:, 0] + y)
}
"""


def line_of(text):
    return next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if text in line)


def test_errors_have_their_place(program, session, batch, data, tmp_path):
    def place_of(error, act):
        with pytest.raises(error) as raised:
            act()
        return raised.value.file, raised.value.line, raised.value.variable

    assert place_of(dt.NotFound, lambda: dt.open(tmp_path / "no.dtx")) == (str(tmp_path / "no.dtx"), None, None)
    path = "Net/dense/bias"
    assert place_of(dt.InvalidArgument, lambda: session.__setitem__(path, np.zeros(3, np.float32))) == (None, None, path)
    batch["y"][3] = 7  # of 3 classes
    assert place_of(dt.OutOfRange, lambda: session.step("train", **batch)) == ("net.dt", line_of("loss   ="), None)
    (tmp_path / "a.csv").write_text("1,2\n3,4\n5,six\n")
    rows = dt.compile(CSV).session(devices="cpu:1x1", data=tmp_path)
    assert place_of(dt.DataLoss, lambda: rows.evaluate(step="s")) == (str(tmp_path / "a.csv"), 3, None)

    def step_of(x, **variables):
        looked_at = program.session(devices="cpu:1x1", check_numerics=True)
        for path, value in variables.items():
            looked_at[path] = value
        looked_at.step("train", x=x, y=batch["y"] % 3)

    file, line, variable = place_of(dt.OutOfRange, lambda: step_of(batch["x"] * np.float32(1e20)))
    assert (file, variable) == ("net.dt", "adam/Net/dense/kernel/v") and line > 0  # squares of gradients
    nan = {"Net/dense/kernel": np.full((4, 16), np.nan, np.float32)}
    assert place_of(dt.OutOfRange, lambda: step_of(batch["x"], **nan)) == (None, None, "Net/dense/kernel")
