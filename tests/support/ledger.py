"""ledger: what an asynchronous training left of its leases (runtime/ps/ledger.h), and whether each batch stands there applied once.

    ledger.check_epochs(path, n_epochs, n_batches)

A last line that was cut is passed over: its process was killed. By hand: ledger.py FILE EPOCHS BATCHES.
"""
import collections
import json
import pathlib
import sys


class Wrong(Exception):
    """What is wrong with a ledger."""


def read(path):
    """Its lines, each with its number as "line"."""
    whole = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    return [{"line": number, **json.loads(line)} for number, line in enumerate(whole, 1)]


def net(lines):
    """What is applied and not lost: {version: (epoch, batch)}. Each line has to follow from those before it."""
    applied, standing, opened, version = {}, set(), None, None
    for line in lines:
        event, where = line["event"], f"line {line['line']}: "
        batch = (line["epoch"], line.get("batch"))
        if event == "opened":
            if applied and max(applied) + 1 != line["version"]:
                raise Wrong(where + f"begins with version {line['version']}, and {max(applied)} is the last that is applied")
            opened, version = line, line["version"]
        elif event == "applied":
            if opened is None or line["epoch"] != opened["epoch"] or not opened["first"] <= line["batch"] <= opened["last"]:
                raise Wrong(where + f"{batch} is not of the range {opened}")
            if line["version"] != version or not 0 <= line["lag"] <= version:
                raise Wrong(where + f"version {line['version']} with lag {line['lag']} after version {version}")
            if batch in standing:
                raise Wrong(where + f"{batch} is applied once more")
            applied[version] = batch
            standing.add(batch)
            version += 1
        elif event == "lost":
            if applied.pop(line["version"], None) != batch:
                raise Wrong(where + f"{batch} is lost, and was not applied at version {line['version']}")
            standing.remove(batch)
        elif event not in ("returned", "double"):
            raise Wrong(where + f"no such event: {event}")
    return applied


def check_epochs(path, n_epochs, n_batches, most_lag=None):
    """Each of so many batches of so many epochs stands there applied once. Returns how many lines of each event there are."""
    lines = read(path)
    wanted = {(epoch, batch) for epoch in range(1, n_epochs + 1) for batch in range(1, n_batches + 1)}
    found = net(lines).values()
    if set(found) != wanted:
        raise Wrong(f"{path}: missing: {sorted(wanted - set(found))[:10]}, unknown: {sorted(set(found) - wanted)[:10]}")
    late = [line for line in lines if line["event"] == "applied" and most_lag is not None and line["lag"] > most_lag]
    if late:
        raise Wrong(f"{path}: a lag above {most_lag}: {late[0]}")
    return collections.Counter(line["event"] for line in lines)


if __name__ == "__main__":
    try:
        print(dict(check_epochs(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
    except Wrong as wrong:
        sys.exit(str(wrong))
