"""mutate: does the suite find mistakes? Makes one in the compiler, builds, runs tests until the first fails; a mistake at a time, a line of a table each.

    mutate.py --folder F [--count 40] [--first SEED]     mistakes drawn by seeds (drawn.py)
    mutate.py --folder F --planted [NAME...]             the mistakes of planted.py, which the project once had
    mutate.py --show SEED                                prints a seed's change, and makes none

Run by hand: a mistake takes minutes. F gets two work trees of HEAD, `clean` and `mutant`, and `mutants.tsv`: the seed or name, file:line, what was done,
the line before and after, how it ended, after how many seconds, and the commit, for a seed means another change of other sources. Seeds that stand there
are left out, so the command goes on where it was stopped.
It ended "killed" by the test that is named, "survived" where all tests passed, or "out of time" where they did in the time that a mistake has. A test
that fails without the mistake kills nothing. The tests nearest to the changed file go first, then those that are fast.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import drawn
import planted

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Which tests go first, by what is changed.
NEAREST = {
    "ops": ["ops.numpy_test", "unit.(op|ops|ir)_.*", "ops.conformance", "lit.run", "ops.codegen", "ops.random_graphs"],
    "passes": ["lit.run", "unit.(partition|shrink|row_forms|shares|partial_sums|schedule|kernel_plan|op_algebra|ops_gradients|placement)",
               "ops.random_graphs", "ops.codegen", "ops.steps", "e2e.(scan|plan_golden|edges|dtc_check)"],
    "frontend": ["lit.run", "unit.dsl_.*", "unit.diagnostics", "unit.planted", "ops.random_graphs"],
    "codegen": ["unit.codegen_.*", "ops.codegen", "unit.kernel_.*", "ops.random_graphs", "lit.run", "unit.schedule"],
    "cuda": ["lit.run", "unit.(cuda|cublaslt|cudnn).*", "ops.cuda", "ops.cuda_.*"],
}  # fmt: skip
FOLDERS = {"frontend": ("lit", "e2e", "unit", "ops", "python", "mpi"), "others": ("lit", "unit", "ops", "e2e", "python", "mpi")}
POLITE = ["nice", "-n", "19"]


def run(command, cwd, seconds=None, log=None):
    """The exit status, or None if it took too long. What it prints goes to `log`."""
    with open(log or os.devnull, "ab") as out:
        process = subprocess.Popen([*POLITE, *map(str, command)], cwd=cwd, stdout=out, stderr=out, start_new_session=True)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return None


class Tree:
    """A work tree of HEAD, built by hand of this tool."""

    def __init__(self, folder, python):
        self.folder, self.build, self.log = folder, folder / "build", folder.parent / f"{folder.name}.log"
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
        if not folder.exists():
            subprocess.run(["git", "worktree", "add", "--detach", folder, commit], cwd=ROOT, check=True, capture_output=True)
        self.commit = commit[:9]
        subprocess.run(["git", "checkout", "--quiet", "--force", "--detach", commit], cwd=folder, check=True)
        if run(["cmake", "--preset", "release", f"-DDT_PYTHON={python}"], folder, log=self.log) != 0:
            sys.exit(f"{folder} cannot be configured: {self.log}")
        text = subprocess.run(["ctest", "--test-dir", "build", "--show-only=json-v1"], cwd=folder, check=True, capture_output=True, text=True).stdout
        self.tests = {}
        for test in json.loads(text)["tests"]:
            properties = {p["name"]: p["value"] for p in test.get("properties", [])}
            labels = properties.get("LABELS", [])
            if "full" not in labels and "gpu" not in labels and "command" in test:
                self.tests[test["name"]] = test["command"]

    def make(self, targets, seconds=900):
        return run(["cmake", "--build", "build", "-j", "1", "--target", *targets], self.folder, seconds, self.log) == 0

    def targets_of(self, name):
        """What a test needs."""
        command = pathlib.Path(self.tests[name][0])
        if command.is_relative_to(self.build / "tests"):
            return [f"{command.parent.name}_{command.name}", "dtc", "dtrun"]
        if name.split(".")[0] not in ("lit", "unit", "ops"):
            return ["all"]
        return ["dtc", "dtrun", *(f"tools_{tool.stem}" for tool in (self.folder / "tests/tools").glob("*.c") if not name.startswith("lit."))]

    def test(self, name, seconds):
        """Does it pass? None: not within these seconds."""
        self.make(self.targets_of(name))
        code = run(["ctest", "--test-dir", "build", "--output-on-failure", "-R", f"^{re.escape(name)}$"], self.folder, seconds, self.log)
        return None if code is None else code == 0

    def object_hash(self, path):
        """Of what a file is compiled to; of a table, of nothing."""
        objects = sorted(self.build.glob(f"**/{path.split('/')[0]}/**/{pathlib.Path(path).name}.o"))
        return [hashlib.sha256(one.read_bytes()).hexdigest() for one in objects] if path.endswith(".c") else None


class Hunt:
    def __init__(self, options):
        self.options, self.folder = options, options.folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.table = self.folder / "mutants.tsv"
        self.clean, self.mutant = Tree(self.folder / "clean", options.python), Tree(self.folder / "mutant", options.python)
        self.costs = self.folder / "costs.json"  # seconds of each test without a mistake, and None of one that fails
        self.known = json.loads(self.costs.read_text()) if self.costs.exists() else {}
        rows = [row.split() for file in options.costs for row in file.read_text().splitlines()]
        self.expected = {row[0]: float(row[2]) for row in rows if len(row) == 3 and float(row[2]) > 0}
        for tree in (self.clean, self.mutant):
            if not tree.make(["dtc", "dtrun"]):
                sys.exit(f"{tree.folder} does not build: {tree.log}")

    def passes_clean(self, name):
        if name not in self.known:
            begin = time.monotonic()
            passed = self.clean.make(self.clean.targets_of(name)) and self.clean.test(name, 900)
            self.known[name] = round(time.monotonic() - begin, 1) if passed else None
            self.costs.write_text(json.dumps(self.known, indent=1, sort_keys=True))
        return self.known[name] is not None

    def order(self, group, path, first=None):
        """The names of all tests, the likeliest to fail first."""
        stem = re.sub(r"^(ops|dsl|llvm|cuda)_", "", pathlib.Path(path).stem)
        nearest = NEAREST["cuda" if group == "codegen" and "cuda" in path else group]
        nearest = [*([re.escape(first)] if first else []), nearest[0], rf".*\b\w*{re.escape(stem)}\w*", *nearest[1:]]

        def place(name):
            near = next((i for i, pattern in enumerate(nearest) if re.fullmatch(pattern, name)), len(nearest))
            folder = name.split(".")[0]
            of_gpus = re.search("cuda|cublas|cudnn|nccl|gpu", name) is not None and near == len(nearest)
            folders = FOLDERS["frontend" if group == "frontend" else "others"]
            seconds = self.known.get(name) or self.expected.get(name, 20)
            return near, of_gpus, folders.index(folder) if folder in folders else len(folders), seconds, name

        return sorted(self.mutant.tests, key=place)

    def hunt(self, group, path, first=None):
        """(how it ended, by which test) for the mistake that now stands in the mutant."""
        end = time.monotonic() + 60 * self.options.minutes
        for name in self.order(group, path, first):
            if time.monotonic() > end:
                return "out of time", f"before {name}"
            if self.known.get(name, 0) is None:
                continue
            limit = 60 + 10 * self.known.get(name, self.expected.get(name, 30))
            if self.mutant.test(name, limit) is not True and self.passes_clean(name):
                return "killed", name
        return "survived", ""

    def put(self, path, first, before, after):
        file = self.mutant.folder / path
        text = file.read_text()
        at = 0 if first is None else sum(len(line) + 1 for line in text.split("\n")[: first - 1])
        assert text.startswith(before, at) if first is not None else text.count(before) == 1, f"{path}: the text is not there, or more than once"
        at = at if first is not None else text.index(before)
        file.write_text(text[:at] + after + text[at + len(before) :])
        return text.count("\n", 0, at) + 1

    def take_back(self, path):
        subprocess.run(["git", "checkout", "--quiet", "--", path], cwd=self.mutant.folder, check=True)

    def write(self, name, place, kind, before, after, outcome, test, seconds):
        cells = [str(name), place, kind, before.strip(), after.strip(), outcome, test, f"{seconds:.0f}", self.mutant.commit]
        with open(self.table, "a") as out:
            out.write("\t".join(re.sub(r"\s+", " ", cell) for cell in cells) + "\n")
        print(f"{name}: {place}: {kind}: {outcome} {test} after {seconds:.0f} s\n  - {before.strip()}\n  + {after.strip()}", flush=True)

    def done(self):
        return {line.split("\t")[0] for line in self.table.read_text().splitlines()} if self.table.exists() else set()

    def one_drawn(self, seed):
        for group, path, line, kind, before, after in drawn.draw(seed, self.mutant.folder):
            if not self.mutant.make(["dtc"]):
                sys.exit(f"the clean mutant does not build: {self.mutant.log}")
            hashes = self.mutant.object_hash(path)
            self.put(path, line, before, after)
            try:
                if not self.mutant.make(["dtc"]) or (hashes is not None and hashes == self.mutant.object_hash(path)):
                    continue  # does not compile, or to the same code
                begin = time.monotonic()
                outcome, test = self.hunt(group, path)
                self.write(seed, f"{path}:{line}", kind, before, after, outcome, test, time.monotonic() - begin)
                return
            finally:
                self.take_back(path)

    def one_planted(self, row):
        group = next((g for g, patterns in drawn.GROUPS.items() if any(pathlib.PurePath(row.path).match(p) for p in patterns)), "passes")
        line = self.put(row.path, None, row.right, row.wrong)
        try:
            begin = time.monotonic()
            outcome, test = self.hunt(group, row.path, row.test) if self.mutant.make(["dtc", "dtrun"]) else ("does not compile", "")
            self.write(row.name, f"{row.path}:{line}", row.what, row.right, row.wrong, outcome, test, time.monotonic() - begin)
        finally:
            self.take_back(row.path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--minutes", type=float, default=20, help="for the tests of a mistake")
    parser.add_argument("--python", default=ROOT / ".venv/bin/python", help="with what the tests need")
    parser.add_argument("--costs", type=pathlib.Path, nargs="*", default=[], metavar="FILE",
                        help="how long tests take: Testing/Temporary/CTestCostData.txt of a build whose tests were run")  # fmt: skip
    parser.add_argument("--planted", nargs="*", metavar="NAME")
    parser.add_argument("--show", type=int, metavar="SEED")
    options = parser.parse_args()
    if options.show is not None:
        print(*next(drawn.draw(options.show, ROOT)), sep="\n")
        return 0
    if options.folder is None:
        parser.error("--folder says where the work trees are made")
    hunt = Hunt(options)
    if options.planted is not None:
        for row in planted.ROWS:
            if (row.name in options.planted or not options.planted) and row.name not in hunt.done():
                hunt.one_planted(row)
    else:
        for seed in range(options.first, options.first + options.count):
            if str(seed) not in hunt.done():
                hunt.one_drawn(seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
