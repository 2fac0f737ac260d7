"""timeline: what `dtrun --timeline` wrote, checked against the trace event format and against the plan of the program."""
import collections
import itertools
import json
import math
import zipfile

from training import check

EVERY = {"name", "ph", "pid", "tid", "args"}
FIELDS = {"M": EVERY, "X": EVERY | {"cat", "ts", "dur"}, "b": EVERY | {"cat", "ts", "id2"}, "e": EVERY | {"cat", "ts", "id2"}}  # of an event, by its phase


class Timeline:
    """The events of a file, all of them checked: `spans` of threads, `exchanges` as pairs of events, `threads` and `processes` by number."""

    def __init__(self, path):
        whole = json.loads(path.read_text())
        self.about = whole["otherData"]
        names = {"process_name": {}, "thread_name": {}}
        self.spans, asynchronous = [], []
        for e in whole["traceEvents"]:
            check(e["ph"] in FIELDS and set(e) == FIELDS[e["ph"]], f"{path}: {e}")
            check(isinstance(e["name"], str) and e["pid"] >= 1 and e["tid"] >= 1 and isinstance(e["args"], dict), f"{path}: {e}")
            if e["ph"] == "M":
                names.get(e["name"], {})[e["pid"] if e["name"] == "process_name" else (e["pid"], e["tid"])] = e["args"].get("name")
                continue
            check(isinstance(e["ts"], float) and isinstance(e["cat"], str), f"{path}: {e}")
            e["began"] = round(e["ts"] * 1000)
            if e["ph"] == "X":
                check(e["dur"] >= 0, f"{path}: {e}")
                e["ended"] = e["began"] + round(e["dur"] * 1000)
                self.spans.append(e)
            else:
                asynchronous.append(e)
        self.processes, self.threads = names["process_name"], names["thread_name"]
        check({e["pid"] for e in self.spans} == set(self.processes), f"{path}: {self.processes}")
        check({(e["pid"], e["tid"]) for e in self.spans + asynchronous} <= set(self.threads), f"{path}: {self.threads}")
        self.check_nesting()
        self.exchanges = list(self.pairs(asynchronous))

    def check_nesting(self):
        by_thread = collections.defaultdict(list)
        for e in self.spans:
            by_thread[e["pid"], e["tid"]].append(e)
        for spans in by_thread.values():
            around = []
            for e in sorted(spans, key=lambda e: (e["began"], -e["ended"])):
                while around and around[-1]["ended"] <= e["began"]:
                    around.pop()
                check(not around or e["ended"] <= around[-1]["ended"], f"{e} begins in {around[-1:]}, and ends after it")
                around.append(e)

    @staticmethod
    def pairs(events):
        """Of each process and tag one after another."""
        by_tag = collections.defaultdict(list)
        for e in events:
            by_tag[e["pid"], e["id2"]["local"]].append(e)
        for of_tag in by_tag.values():
            check(len(of_tag) % 2 == 0, of_tag[-1])
            last = -math.inf
            for begin, end in zip(of_tag[::2], of_tag[1::2]):
                check((begin["ph"], end["ph"]) == ("b", "e") and begin["name"] == end["name"], (begin, end))
                check(last <= begin["began"] <= end["began"], (begin, end))
                last = end["began"]
                yield begin, end

    def of(self, category, **wanted):
        return [e for e in self.spans if e["cat"] == category and all(e["args"].get(k) == v for k, v in wanted.items())]

    def steps(self, process=1):
        """How many of which are there."""
        return collections.Counter(e["name"] for e in self.of("step") if e["pid"] == process)


def planned_kernels(artifact, function, replicas, rows, n_executors, n_processes, on_gpu):
    """How often each kernel runs in one step, by its name in a timeline: replica kernels once a microbatch, others once a process, or on each executor."""
    manifest = json.loads(zipfile.ZipFile(artifact).read("manifest.json"))
    functions, microbatch_rows = (manifest["cuda"]["functions"], rows) if on_gpu else (manifest["functions"], manifest["microbatch_rows"])
    plan = next(f["plan"] for f in functions if f["name"] == function)
    n_microbatches = replicas * math.ceil(rows / microbatch_rows)
    runs = collections.Counter()
    for segment in plan["segments"]:
        for k in itertools.chain(segment["device"], segment["replica"]):
            kernel = plan["kernels"][k]
            n = (n_executors if kernel["divided"] else n_processes) if k in segment["device"] else n_microbatches
            runs[f"{kernel['name']} ({kernel['lines']})" if kernel["lines"] else kernel["name"]] += n
    return runs


def moves_rows(artifact, function, name, on_gpu):
    """Whether the plan counts bytes of each row for the kernel."""
    manifest = json.loads(zipfile.ZipFile(artifact).read("manifest.json"))
    plan = next(f["plan"] for f in (manifest["cuda"] if on_gpu else manifest)["functions"] if f["name"] == function)
    return any(kernel["bytes_per_row"] > 0 for kernel in plan["kernels"] if kernel["name"] == name.split(" ")[0])


def check_kernels(timeline, artifact, replicas, rows, n_executors, n_processes=1, on_gpu=False):
    """Of all steps that the timeline has; n_executors: of all processes together."""
    for function, n_steps in timeline.steps().items():
        found = collections.Counter(e["name"] for e in timeline.of("kernel", function=function))
        wanted = planned_kernels(artifact, function, replicas, rows, n_executors, n_processes, on_gpu)
        check(wanted and found == {name: n * n_steps for name, n in wanted.items()}, f"{n_steps} steps of {function}: {found}, the plan: {wanted}")
        check(all(e["args"].get("bytes", 0) > 0 for e in timeline.of("kernel", function=function) if moves_rows(artifact, function, e["name"], on_gpu)),
              f"{function}: bytes")
