"""weights_table: tests/tools/weights_sha256.py gives the same sum for the same training and another for any other: one bit of a parameter or of an
optimizer's slot is enough. What a file says beside its tensors does not count; a training that cannot be run gives neither a sum nor success."""
import os
import re
import sys

sys.path[:0] = [os.path.join(os.environ["DT_SOURCE"], folder) for folder in ("tests/support", "tests/tools")]
from training import *  # noqa: E402,F403
import weights_sha256  # noqa: E402

TOOL = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/tools/weights_sha256.py"
SUM = r"[0-9a-f]{64}"


def rows(pattern, dtc="dtc", expect=0):
    """The rows of the tool that match."""
    done = subprocess.run([sys.executable, TOOL, "--dtc", shutil.which(dtc) or dtc, "--dtrun", shutil.which("dtrun"), "--only", pattern],
                          capture_output=True, text=True)
    check(done.returncode == expect, f"the tool ended with {done.returncode}, wanted {expect}:\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()


def flip(path, bit):
    """Flips one bit of the file's last tensor."""
    content = bytearray(path.read_bytes())
    content[-1 - bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def sums_see_each_bit():
    table = weights_sha256.Table("dtc", "dtrun", FOLDER)
    training = weights_sha256.Training("own_parts", "f32", 1, "cpu:1", "x86-64-v3", 8, 8, 1)
    checkpoint = table.train(training)
    wanted = weights_sha256.sum_of(checkpoint)
    check(wanted == weights_sha256.sum_of(table.train(training)), "the same training twice, two sums")
    for name in ("model.safetensors", "optimizer.safetensors"):
        path = checkpoint / name
        for bit in (0, 7, 12):
            flip(path, bit)
            check(weights_sha256.sum_of(checkpoint) != wanted, f"bit {bit} of {name} is flipped, and the sum is the same")
            flip(path, bit)
        check(weights_sha256.sum_of(checkpoint) == wanted, f"{name} is as it was, and the sum is not")
        content = path.read_bytes()
        n_head = struct.unpack("<Q", content[:8])[0]
        head = json.loads(content[8:8 + n_head])
        head["__metadata__"] = {"said": "otherwise"}
        head = json.dumps(head).encode()
        path.write_bytes(struct.pack("<Q", len(head)) + head + content[8 + n_head:])
        check(weights_sha256.sum_of(checkpoint) == wanted, f"{name} says something else of itself, with the same tensors, and the sum is another")


def main():
    sums_see_each_bit()
    found = rows("^own_parts .*V=2.*v3")
    check(len(found) == 2 and all(re.search(f"  {SUM}$", row) for row in found), found)
    check(found[0].split()[-1] == found[1].split()[-1], f"one and two devices: {found}")
    found = rows("^own_parts .*V=2.*v3", dtc="/bin/false", expect=1)
    check(len(found) == 2 and all("not run: " in row for row in found), found)
    finish()


main()
