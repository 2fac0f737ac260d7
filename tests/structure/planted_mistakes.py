"""The mistakes of tests/mutation/planted.py can still be planted: the right text of each stands once in its file, and is not the wrong one."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/mutation"))
import planted


def complaint(row):
    file = ROOT / row.path
    count = file.read_text().count(row.right) if file.exists() else 0
    if count != 1:
        return f"{row.name}: its text stands {count} times in {row.path}, not once; tests/mutation/planted.py is to say how the mistake would look there now"
    return f"{row.name}: right and wrong are the same" if row.right == row.wrong else None


def main():
    wrong = [what for what in map(complaint, planted.ROWS) if what]
    elsewhere = planted.ROWS[0]._replace(right="no such text")
    if complaint(elsewhere) is None or complaint(elsewhere._replace(path="no/such/file.c")) is None:
        wrong.append("a row that does not apply went unnoticed")
    print(*wrong, sep="\n")
    return 1 if wrong or len({row.name for row in planted.ROWS}) < len(planted.ROWS) else 0


if __name__ == "__main__":
    sys.exit(main())
