"""accuracy_images_full: examples/image_folder.dt as it stands reaches a test accuracy of 0.86 after 3 epochs at 2 x 64, on the folders that
examples/image_folder.py writes. Takes a minute."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import DATA, SOURCE, Checks, compile, dtrun, need_data

need_data()
checks = Checks()
artifact = compile(os.path.join(SOURCE, "examples", "image_folder.dt"))
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, os.path.join(SOURCE, "examples", "image_folder.py"), folder, DATA], check=True)
    events = dtrun("train", artifact, "--data", folder, "--epochs=3", "--replicas=2", "--devices=cpu:2", "--log-every=0")
reached = [event["accuracy"] for event in events if event["event"] == "epoch" and event["step"] == "evaluate"]
checks.that(len(reached) == 3 and reached[-1] >= 0.86, f"test accuracy {reached}")
checks.finish()
