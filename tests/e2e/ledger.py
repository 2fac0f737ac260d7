"""What tests/support/ledger.py says of ledgers: of one that is right, and of each way in which one can be wrong."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import ledger


def opened(epoch, first, last, version):
    return f'{{"event":"opened","epoch":{epoch},"first":{first},"last":{last},"version":{version}}}\n'


def applied(epoch, batch, version, lag=0):
    return f'{{"event":"applied","epoch":{epoch},"batch":{batch},"version":{version},"lag":{lag},"worker":"w"}}\n'


def lost(epoch, batch, version):
    return f'{{"event":"lost","epoch":{epoch},"batch":{batch},"version":{version}}}\n'


RETURNED = '{"event":"returned","epoch":1,"batch":2,"worker":"w"}\n'
DOUBLE = '{"event":"double","epoch":1,"batch":1,"worker":null}\n'
FIRST = opened(1, 1, 2, 0) + applied(1, 1, 0) + RETURNED + applied(1, 2, 1, 1)
SECOND = opened(2, 1, 2, 2) + applied(2, 2, 2) + DOUBLE + applied(2, 1, 3)
BACK = lost(1, 2, 1) + lost(2, 2, 2) + lost(2, 1, 3) + opened(1, 2, 2, 1) + applied(1, 2, 1)
CASES = [  # the ledger of two epochs of two batches; what is said of it
    (FIRST + SECOND, None),
    (FIRST + SECOND + BACK + SECOND, None),
    (FIRST + SECOND + '{"event":"app', None),
    (FIRST, "missing: [(2, 1), (2, 2)]"),
    (FIRST + SECOND + BACK, "missing: [(2, 1), (2, 2)]"),
    (FIRST + SECOND + opened(3, 1, 1, 4) + applied(3, 1, 4), "unknown: [(3, 1)]"),
    (FIRST + SECOND + opened(2, 2, 2, 3), "line 9: begins with version 3"),
    (FIRST + SECOND + opened(2, 2, 2, 5), "line 9: begins with version 5"),
    (FIRST + opened(2, 1, 2, 2) + applied(1, 2, 2), "line 6: (1, 2) is not of the range"),
    (applied(1, 1, 0), "line 1: (1, 1) is not of the range"),
    (opened(1, 1, 2, 0) + applied(1, 1, 0) + applied(1, 1, 1), "line 3: (1, 1) is applied once more"),
    (opened(1, 1, 2, 0) + applied(1, 1, 1), "line 2: version 1 with lag 0 after version 0"),
    (opened(1, 1, 2, 0) + applied(1, 1, 0, 1), "line 2: version 0 with lag 1"),
    (FIRST + lost(1, 1, 1), "line 5: (1, 1) is lost, and was not applied at version 1"),
    (FIRST + '{"event":"gained","epoch":1,"batch":1}\n', "no such event: gained"),
]


def said(text, **more):
    """None: all is right."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(text)
        file.flush()
        try:
            return ledger.check_epochs(file.name, 2, 2, **more), None
        except ledger.Wrong as wrong:
            return None, str(wrong)


for text, wanted in CASES:
    _, why = said(text)
    assert (why is None) == (wanted is None) and (wanted or "") in (why or ""), f"{text}: wanted {wanted}, said {why}"
assert said(FIRST + SECOND, most_lag=1)[0] == {"opened": 2, "applied": 4, "returned": 1, "double": 1}
assert "a lag above 0" in said(FIRST + SECOND, most_lag=0)[1]
