"""mesh: trainings of models in shards and stages over any mesh of processes and devices, interrupted and gone on with in another one, beside one process of one
core that is not interrupted: the same bytes for each number of replicas and of shards."""
import functools
import os
import pathlib
import tempfile

import layouts
import numpy as np
from cover import cover, rows_of
from sharded import SPLIT
from training import FOLDER, check, left_by

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
BATCH = 8

FACTORS = {
    "program": ("gpt", "bert", "perceptron"),
    "precision": ("f32", "bf16"),
    "replicas": (1, 2, 4),
    "shards": (1, 2, 4),
    "processes": (1, 2, 4),
    "over": (1, 2, 4),  # of these the shards are spread over
    "stages": (1, 2),  # of 2 the model is wide, so that it can be cut
    "devices": (1, 2),  # of each
    "shares": ("nothing", "optimizer", "parameters"),  # that processes with the same part of the model have
    "resumed": (False, True),  # in another mesh, in the middle of an epoch
}


def fits(row):
    """Each device of a group of processes has a replica; of a stage's parameters each of its processes has all."""
    groups, rest = divmod(row["processes"], row["over"] * row["stages"])
    goes = row["stages"] == 1 or row["shares"] != "parameters"
    return goes and rest == 0 and row["shards"] % row["over"] == 0 and groups * row["devices"] <= row["replicas"]


def gpt(wide):
    """A tied table; a norm of all gradients, by which they are clipped; dropout. The last of an epoch's batches is short."""
    np.save(layouts.DATA / "text.npy", np.random.default_rng(2).integers(0, 256, size=(37, 17)).astype(np.uint8))
    text = (SOURCE / "tests/twins/gpt.dt").read_text()
    text = text.replace("batch(32)", f"batch({BATCH})") + """
data test_set = npy("text.npy") | take(19) | batch(8)
step evaluate(text: u8[B, context + 1]) from test_set {
    token = i32(text)
    report loss: mean(sparse_categorical_crossentropy(token[:, 1:], Gpt(token[:, :-1])))
}
step predict(text: u8[B, context + 1]) { return logits: Gpt(i32(text)[:, :-1]) }
"""
    return text, (f"-Dwidth={96 if wide else 32}", "-Dcontext=16", f"-Dlayers={3 if wide else 2}"), ("text.npy",)


def bert(wide):
    """A vocabulary in shards, whose table is tied too; four heads, what is padded, weights of predictions."""
    random = np.random.default_rng(3)
    token = random.integers(1, 212, size=(37, 16)).astype(np.int32)
    token[:, 12:] *= random.integers(0, 2, size=(37, 1)).astype(np.int32)
    given = {name: random.integers(0, most, size=(37, 4)) for name, most in (("position", 12), ("label", 212), ("weight", 2))}
    columns = {"masked": token, **{name: array.astype(np.float32 if name == "weight" else np.int32) for name, array in given.items()}}
    for name, array in columns.items():
        np.save(layouts.DATA / f"{name}.npy", array)
    text = (SOURCE / "tests/twins/bert_mlm.dt").read_text().replace("batch(32)", f"batch({BATCH})").replace("30522", "212")
    split = text.replace("truncated_normal(stddev: 0.02)", "truncated_normal(stddev: 0.02), shard: 0", 1)
    check("param table:    f32[vocab_size, width] = truncated_normal(stddev: 0.02), shard: 0" in split, "another parameter comes first")
    return split + """
data test_set = npy("masked.npy", "position.npy", "label.npy", "weight.npy") | take(19) | batch(8)
step evaluate(masked: i32[B, context], position: i32[B, predictions], label: i32[B, predictions], weight: f32[B, predictions]) from test_set {
    report loss: mean(sparse_categorical_crossentropy(label, MaskedLm(masked, masked != 0, position)), weight: weight)
}
step predict(masked: i32[B, context], position: i32[B, predictions]) { return logits: MaskedLm(masked, masked != 0, position) }
""", (f"-Dwidth={96 if wide else 32}", f"-Dlayers={3 if wide else 2}", "-Dcontext=16", "-Dpredictions=4", "-Dheads=4"), ("masked.npy", "position.npy")


def perceptron(wide):
    """Norms of each parameter and of its step, as LAMB takes them; dropout."""
    text = SPLIT.replace("mesh model = 4", "option shards = 1\nmesh model = shards").replace("batch(24)", f"batch({BATCH})").replace("take(50)", "take(19)")
    start, end = text.index("    apply("), text.index("    report loss: mean(loss), greatest")
    text = text[:start] + "    minimize(loss, lamb(learning_rate: 0.01, weight_decay: 0.01))\n" + text[end:]
    text = text.replace("shuffle(90)", "take(37) | shuffle(37)")
    return text.replace("units: 32", "units: 132") if wide else text, (), ("a.npy", "b.npy")


PROGRAMS = {"gpt": gpt, "bert": bert, "perceptron": perceptron}


@functools.cache
def case_of(program, precision, shards, wide):
    text, flags, inputs = PROGRAMS[program](wide)
    flags = (*flags, f"-Dshards={shards}", *(("--precision", precision) if precision != "f32" else ()))
    return layouts.Case(f"{program}_{precision}_{shards}_{wide}", text, BATCH, *flags, inputs=inputs)


@functools.cache
def wanted(program, precision, replicas, shards, wide):
    """Of one process of one core: (weights and slots, reports, evaluation, predictions)."""
    return layouts.train_one(case_of(program, precision, shards, wide), replicas)


def another(row):
    """A mesh for the same replicas and shards; this one where there is no other. A model that is not wide stays in one stage."""
    free = ("processes", "over", "devices", "shares", *(["stages"] if row["stages"] > 1 else []))
    meshes = rows_of({name: FACTORS[name] if name in free else (value, ) for name, value in row.items()}, fits)
    return meshes[(meshes.index(row) + len(meshes) // 2) % len(meshes)]


def found(row):
    case = case_of(row["program"], row["precision"], row["shards"], row["stages"] > 1)
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    checkpoints = ["--checkpoint-dir", folder / "ck"]

    def run(verb, mesh, *flags, replicas=case.flags(row["replicas"])):
        shares = mesh["shares"] == "parameters" or (mesh["shares"] == "optimizer" and verb == "train")
        return layouts.mpirun("openmpi", mesh["processes"], verb, case, *replicas, "--devices", f"cpu:{mesh['devices']}x1",
                              *(["--shards-over", mesh["over"]] if mesh["over"] > 1 else []),
                              *(["--stages", mesh["stages"]] if mesh["stages"] > 1 else []), *([f"--shard-{mesh['shares']}"] if shares else []), *checkpoints,
                              *flags)

    mesh = row
    if row["resumed"]:
        run("train", row, "--epochs", 2, "--seed", 3, "--max-steps", 3)
        mesh = another(row)
    events = run("train", mesh, "--epochs", 2, "--seed", 3, *(["--resume"] if row["resumed"] else []))
    evaluated = run("evaluate", mesh)
    run("predict", mesh, *(f"--input={case.data / name}" for name in case.inputs), "--output", folder / "out",
        replicas=["--replicas", row["replicas"]])
    return left_by(folder / "ck"), layouts.said(events), layouts.said(evaluated), layouts.predictions(folder / "out")


def compare(row):
    what_it_is = ", ".join(f"{name} {value}" for name, value in row.items())
    one = wanted(row["program"], row["precision"], row["replicas"], row["shards"], row["stages"] > 1)
    check(one[0] and len(one[1]) >= 2 and one[3], f"{what_it_is}: there is nothing to compare: {one[1]}")
    for what, mine, other in zip(("weights", "reports", "evaluation", "predictions"), found(row), one):
        if row["resumed"] and what == "reports":
            mine, other = mine[-1:], other[-1:]  # of the epoch that was not interrupted
        check(mine == other, f"{what_it_is}: other {what} than of one core: {(mine, other) if what in ('reports', 'evaluation') else ''}")
    print(f"{what_it_is}: agrees with one core", flush=True)


def compare_all(strength):
    """In meshes that have each combination of `strength` values of FACTORS."""
    rows = cover(FACTORS, fits, strength)
    for row in rows:
        compare(row)
    bits = [wanted("gpt", "f32", 4, shards, False)[0] for shards in (1, 4)]
    check(bits[0] != bits[1], "4 shards leave the bits of one: the comparison cannot fail")
    print(f"{len(rows)} meshes, with each {('', 'value', 'pair', 'triple')[strength]} of values", flush=True)
