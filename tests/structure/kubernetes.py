"""What the manifest for Kubernetes runs is a command with options that there are."""
import pathlib
import re

SOURCE = pathlib.Path(__file__).resolve().parents[2]

manifest = (SOURCE / "examples/kubernetes/mpijob.yaml").read_text()
words = re.findall(r'^ +- "(.*)"$', manifest, re.MULTILINE)
options = set(re.findall(r'\{"([a-z-]+)", (?:KEY_\w+|\'.\')', (SOURCE / "runtime/commands/options.c").read_text()))

n_processes = words[words.index("-n") + 1]
given = [word[2:].split("=")[0] for word in words[words.index("train") + 1:] if word.startswith("--")]
assert len(given) >= 4 and len(options) >= 20, (given, options)
for name in given:
    assert name in options, f"examples/kubernetes/mpijob.yaml: dtrun has no --{name}"
assert re.search(rf"Worker:\n +replicas: {n_processes}\n", manifest), f"mpirun -n {n_processes} for another number of workers"
