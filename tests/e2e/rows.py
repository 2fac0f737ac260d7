"""Rows: a table of which steps take rows, trained by the rows that batches name. With sgd the bits are those of training with all of it, on any number
of replicas, devices and cores, interrupted or not; Adam changes rows without a gradient, so it is refused but for --lazy-rows, which then is Adam on
the rows of each batch, as NumPy computes it. An index out of range is told as ever."""
import os
import sys
import zipfile

import numpy as np
from safetensors.numpy import load_file

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from ratings import write_ratings  # noqa: E402
from timeline import Timeline  # noqa: E402
from training import *  # noqa: E402,F403

SOURCE = pathlib.Path(os.environ["DT_SOURCE"], "tests/programs/recommend.dt").read_text()
DATA = FOLDER / "data"
write_ratings(DATA)


def weights(program, *flags, epochs=3, folder=None):
    folder = folder or pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    run = Run("train", program, "--data", DATA, "--epochs", epochs, "--checkpoint-dir", folder, *flags)
    return (newest(folder) / "model.safetensors").read_bytes(), [e.get("loss") for e in run.all("epoch")]


sgd, adam = compile_program(SOURCE, "sgd"), compile_program(SOURCE, "adam", "-Dadaptive=true")
small = compile_program(SOURCE, "small", "--batch", "64", "-Dusers=5000", "-Ditems=5000")
for program, replicas, devices in ((sgd, 1, ("cpu:1x1",)), (sgd, 5, ("cpu:1", "cpu:2x2", "cpu:3x1 --placement central")), (small, 2, ("cpu:2",))):
    whole = weights(program, "--replicas", replicas)
    for device in devices:
        rows = weights(program, "--replicas", replicas, "--devices", *device.split(), "--rows")
        check(rows == whole, f"{program}: other bits by rows, V = {replicas} on {device}")
check(weights(sgd, "--replicas", 5, "--seed", 1)[0] != weights(sgd, "--replicas", 5)[0], "the comparison sees no difference")

path = FOLDER / "trace.json"
run = Run("train", sgd, "--data", DATA, "--max-steps", 9, "--rows", "--timeline", path, "--timeline-steps", 4)
check("the last 4 of 9 steps" in run.error, run.error)
trace = Timeline(path)
check([span["args"]["function"] for span in trace.spans if span["cat"] == "step"] == ["train"] * 4, trace.spans)

folder = FOLDER / "resumed"
weights(sgd, "--rows", epochs=1, folder=folder)
check(weights(sgd, "--resume", folder=folder)[0] == weights(sgd)[0], "other bits after a checkpoint of rows")

about = subprocess.run(["dtrun", "info", adam], capture_output=True, text=True).stdout
check("Taste/items/table f32[2000, 5]; update by rows: only with `dtrun train --lazy-rows`, for the update of a row without a gradient changes "
      "adam/Taste/items/table/m" in about, about)
check("update by rows: yes" in subprocess.run(["dtrun", "info", sgd], capture_output=True, text=True).stdout, "dtrun info")
refused = Run("train", adam, "--data", DATA, "--rows", expect=1).error
check("changes adam/Taste/users/table/m: with rows alone the bits are others, which `dtrun train --lazy-rows` accepts" in refused, refused)
check("no row forms" in Run("train", compile_program(SOURCE, "none", "-O", "no-rows"), "--data", DATA, "--rows", expect=1).error, "no row forms")

# ---- --lazy-rows: Adam on the rows of a batch ----
LAZY = """
use nn, optimizers
data batches = npy("item.npy", "rating.npy") | batch(4)
model Bag(item: i32[B]) -> f32[B, 2] {
    param table: f32[100, 2] = constant(0.5)
    return table[item]
}
step train(item: i32[B], rating: f32[B]) from batches {
    minimize(square(sum(Bag(item), axis: 1) - rating), adam(0.1))
}
"""
item, rating = np.array([3, 5, 3, 99, 5, 7, 7, 7, 3, 0, 1, 5], np.int32), np.linspace(-1, 2, 12).astype(np.float32)
np.save(DATA / "item.npy", item)
np.save(DATA / "rating.npy", rating)
folder = FOLDER / "lazy"
weights(compile_program(LAZY, "lazy"), "--lazy-rows", epochs=2, folder=folder)
p, m, v = np.full((100, 2), 0.5), np.zeros((100, 2)), np.zeros((100, 2))
for step in range(6):
    batch = slice(4 * (step % 3), 4 * (step % 3) + 4)
    g = np.zeros((100, 2))
    np.add.at(g, item[batch], (2 * (p[item[batch]].sum(1) - rating[batch]) / 4)[:, None])
    named = np.unique(item[batch])
    m[named] += (g[named] - m[named]) * 0.1
    v[named] += (g[named] ** 2 - v[named]) * 0.001
    alpha = 0.1 * np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
    p[named] -= alpha * m[named] / (np.sqrt(v[named]) + 1e-7)
made = load_file(newest(folder) / "model.safetensors")["Bag/table"]
np.testing.assert_allclose(made, p, rtol=2e-5)
slots = load_file(newest(folder) / "optimizer.safetensors")
np.testing.assert_allclose(slots["adam/Bag/table/v"], v, rtol=2e-5, atol=1e-9)

# ---- an index out of range ----
np.save(DATA / "item.npy", np.where(item == 99, 100, item))
for flags in ((), ("--lazy-rows",)):
    message = Run("train", compile_program(LAZY, "lazy"), "--data", DATA, *flags, expect=1).error
    check("lazy.dt:6:12: train step 1, row 3: index 100 is not within 0 to 99" in message and "example 3 of epoch 0" in message, message)

# Counted once each, however many kernels of the step look it up: forward, and for the gradients of tables and of what is done with their rows.
bad = FOLDER / "bad"
users = write_ratings(bad)
users[[3, 50, 60]] = 500, -1, 10**6
np.save(bad / "user.npy", users)
LEASED = "--local-servers", 2, "--workers", 2
for flags in ((), ("--rows",), ("--rows", "--replicas", 3, "--devices", "cpu:2x1"), LEASED, ("--rows", *LEASED)):
    said = Run("train", sgd, "--data", bad, "--epochs", 1, "--bad-index", "ignore", *flags).error
    check("train, epoch 1: 3 indices were out of range" in said and "evaluate, epoch 1: 1 indices" in said, f"{flags}: {said}")
one, leased = ([line for line in Run("train", sgd, "--data", bad, "--max-steps", 1, "--bad-index", "ignore", *flags).error.splitlines() if "indices" in line]
               for flags in ((), LEASED))
check(len(one) == 1 and one == leased, f"a training that ends in mid-epoch: {one} and {leased}")

# ---- one in what says which rows ----
LOOKED_UP = LAZY.replace("return table[item]", "return table[iota([100], dtype: i32)[item]]")
looked_up = compile_program(LOOKED_UP.replace("adam", "sgd"), "looked_up")
for flags in ((), ("--rows",)):
    message = Run("train", looked_up, "--data", DATA, *flags, expect=1).error
    check("looked_up.dt:6:18: train step 1, row 3: index 100 is not within 0 to 99" in message, message)

# ---- an artifact whose forms do not belong together: of two tables of a step, the indices of one are those of no step ----
with zipfile.ZipFile(sgd) as archive:
    members = {name: archive.read(name) for name in archive.namelist()}
manifest = json.loads(members["manifest.json"])
forms = [form for form in manifest["row_forms"] if form["of"] == manifest["row_forms"][0]["of"]]
indices = next(function for function in manifest["functions"] if function["name"] == forms[1]["indices"])
manifest["functions"].append(indices | {"name": "other"})
forms[1]["indices"] = "other"
with zipfile.ZipFile(FOLDER / "other.dtx", "w") as archive:
    for name, data in (members | {"manifest.json": json.dumps(manifest)}).items():
        archive.writestr(name, data)
told = subprocess.run(["dtrun", "info", FOLDER / "other.dtx"], capture_output=True, text=True)
check(told.returncode == 1 and "two forms of train do not belong together" in told.stderr, told)
finish()
