"""--diagnostics=json: each finding is a line of JSON on standard error, which says what the text says; other errors too; nothing else is written there."""
import json
import pathlib
import subprocess
import tempfile

FIELDS = ["severity", "name", "file", "line", "column", "end", "message", "notes", "hints"]

WRONG = """use nn
model N(x: f32[B, 4]) -> f32[B, 2] { return dense(x, unit: 2) }
step predict(x: f32[B, 4]) {
    sum(x)
    return y: N(x) + "\u00e9\\"\\t\x7f"
}
"""


def told(folder, *arguments, code=1, text=None):
    done = subprocess.run(["dtc", *arguments, "--diagnostics=json"], cwd=folder, input=text, capture_output=True, timeout=60)
    assert done.returncode == code, (arguments, done)
    findings = [json.loads(line) for line in done.stderr.decode().splitlines()]
    assert all(list(finding) == FIELDS for finding in findings), findings
    return findings


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "wrong.dt"
        path.write_text(WRONG)
        for command in (["compile"], ["summary"], ["graph"], ["check"]):
            findings = told(folder, *command, "wrong.dt")
            assert [f["severity"] for f in findings] == ["error", "warning", "error"], findings
            assert [f["name"] for f in findings] == [None, "value-not-used", None], findings
            first, last = findings[0], findings[-1]
            assert (first["file"], first["line"], first["column"], first["end"]) == ("wrong.dt", 2, 54, 58), first
            assert first["message"] == "dense has no parameter unit" and first["hints"] == ["did you mean units?"] and len(first["notes"]) == 1
            assert "\u00e9" in last["message"] and "\x7f" in last["message"], last
        found = told(folder, "compile", "none.dt")[0]
        assert found["file"] is None and found["line"] is None and "none.dt: cannot open" in found["message"], found
        assert told(folder, "fmt", "-", text=b"const a = (")[0]["file"] == "standard input"

        path.write_bytes(b"step predict(x: f32[B]) { return y: x + \"\xff\" }\n")
        assert "\ufffd" in told(folder, "compile", "wrong.dt")[0]["message"]
        path.write_bytes(b"step predict(x: f32[B]) { return y: x + \xe9 + \"caf\xe9\" }\n")
        text = subprocess.run(["dtc", "compile", "wrong.dt"], cwd=folder, capture_output=True, timeout=60).stderr.decode()  # which is UTF-8
        assert "the byte 0xE9 begins no character" in text and "a program is text in UTF-8" in text and "caf\ufffd" in text, text
        path.write_text("step predict(x: f32[B]) { return y: x }\n")
        assert told(folder, "summary", "wrong.dt", code=0) == []
        report = told(folder, "compile", "wrong.dt", "--emit=ir", "--dump-after=verify", code=0)
        assert len(report) == 1 and report[0]["severity"] == "report" and report[0]["message"].count("\n") > 3, report


if __name__ == "__main__":
    main()
