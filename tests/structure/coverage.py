"""tests/golden/coverage.md: each metric that Keras lists stands there once, and each function that is named there is in the library, or built in."""
import json
import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
page = (SOURCE / "tests/golden/coverage.md").read_text()
section = page[page.index("## Metrics"):].split("\n## ")[0]
rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
listed = json.loads((SOURCE / "tests/golden/metrics.json").read_text())["keras"]
if [name for name, _ in rows] != listed:
    sys.exit(f"the metrics of coverage.md are not those of metrics.json: {sorted({name for name, _ in rows} ^ set(listed))}")
library = "".join((SOURCE / f"frontends/dsl/std/{module}.dt").read_text() for module in ("metrics", "losses"))
there = {*re.findall(r"^fn (\w+)\(", library, re.MULTILINE), "mean", "sum", "argmax"}
arguments = {"multi_label", "top_k", "num_regressors", "fn"}
for name, text in rows:
    for code in re.findall(r"`([^`]+)`", text):
        called = re.findall(r"(\w+)\(", code) or [code]
        if missing := [function for function in called if function not in there | arguments]:
            sys.exit(f"coverage.md says that {name} is {code}: there is no {missing[0]}")
print(f"{len(rows)} metrics of Keras are accounted for")
