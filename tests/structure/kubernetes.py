"""What the manifests for Kubernetes run are commands with options that there are."""
import pathlib
import re

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ROWS = "".join((SOURCE / name).read_text() for name in ("runtime/options.c", "runtime/commands/options.c"))
OPTIONS = set(re.findall(r'\{DT_FOR_[A-Z_ |&~]+, "([a-z-]+)", ', ROWS))


def words_of(name, command):
    """The words of a manifest, and the options of its command."""
    manifest = (SOURCE / "examples/kubernetes" / name).read_text()
    words = re.findall(r'^ +- "(.*)"$', manifest, re.MULTILINE)
    given = dict(word[2:].partition("=")[::2] for word in words[words.index(command) + 1:] if word.startswith("--"))
    assert len(given) >= 4 and len(OPTIONS) >= 20, (given, OPTIONS)
    for option in given:
        assert option in OPTIONS, f"examples/kubernetes/{name}: dtrun has no --{option}"
    return manifest, words, given


manifest, words, _ = words_of("mpijob.yaml", "train")
n_processes = words[words.index("-n") + 1]
assert re.search(rf"Worker:\n +replicas: {n_processes}\n", manifest), f"mpirun -n {n_processes} for another number of workers"

manifest, _, given = words_of("parameter-servers.yaml", "ps")
n_pods = len(given["servers"].split(",")) + int(given["workers"])
job, service = (re.search(rf"kind: {kind}\nmetadata:\n  name: (\S+)", manifest)[1] for kind in ("Job", "Service"))
assert given["servers"] == ",".join(f"{job}-{i}.{service}" for i in range(len(given["servers"].split(",")))), given
assert re.findall(r"(?:completions|parallelism): (\d+)", manifest) == [str(n_pods)] * 2, f"not {n_pods} pods"
