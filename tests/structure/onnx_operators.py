"""Each op of ir/ops.def can be rendered for ONNX, or stands here with the reason: elementwise ones by their formulas, loops by compiler/onnx/scan.c, others
by their row of compiler/onnx/operators.def, which names no op twice and none that there is not."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BY_CLASS = {"MAP", "LOOP"}
WITHOUT = {
    "input": "an input of the model",
    "random_uniform": "the generator's numbers are those of no operator",
    "all_reduce": "inserted by partition, which a model does not reach",
    "shard_reduce": "inserted by shard, which a model does not reach",
    "all_gather": "inserted by partition, which a model does not reach",
    "reduce_scatter": "inserted by partition, which a model does not reach",
    "write": "a model updates nothing",
    "gradient": "gone after autodiff",
}


def wrong(ops, rows, without):
    """What is missing, or there in vain."""
    named = [row for row in rows if row in without or row not in ops or ops[row] in BY_CLASS] + [row for row in set(rows) if rows.count(row) > 1]
    return [f"{op} is not rendered" for op, kind in ops.items() if kind not in BY_CLASS and op not in rows and op not in without] + \
           [f"{op} has a row in vain" for op in named] + [f"there is no op {op}" for op in without if op not in ops]


ops = dict(re.findall(r"^OP\((\w+), (\w+),", (ROOT / "ir/ops.def").read_text(), re.MULTILINE))
rows = re.findall(r"^X\((\w+),", (ROOT / "compiler/onnx/operators.def").read_text(), re.MULTILINE)
assert len(ops) > 50 and wrong({**ops, "new": "MOVE"}, rows, WITHOUT) and wrong(ops, rows + ["write"], WITHOUT) and wrong(ops, rows[1:], WITHOUT)
found = wrong(ops, rows, WITHOUT)
print("\n".join(found) or f"{len(rows)} ops by their rows, {len(WITHOUT)} not at all")
sys.exit(1 if found else 0)
