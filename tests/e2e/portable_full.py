"""scripts/portable.sh: what it packs runs in a folder of another system that has a C library and nothing else, and is as small as promised.

The other system is a folder with the loader, libc and libm, which chroot makes the whole world of a process. Without the right to do that the
same runs with an empty environment alone."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
GLIBC = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
DEBIAN_12 = (2, 36)
SBIN = "/usr/sbin:/usr/bin:/sbin:/bin"


def run(command, expect=0, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    check(done.returncode == expect, f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def other_system():
    """A folder with a C library, and the words before a command that run it there; None where this is not allowed."""
    root = FOLDER / "root"
    for library in ("/lib64/ld-linux-x86-64.so.2", *(f"/lib/x86_64-linux-gnu/{name}" for name in ("libc.so.6", "libm.so.6"))):
        if not pathlib.Path(library).exists():
            return root, None
        (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, root / library[1:])
    (root / "tmp").mkdir()
    into = [shutil.which("chroot", path=SBIN), root]
    if os.geteuid() != 0:
        into = [shutil.which("unshare"), "--map-root-user", *into]
    allowed = subprocess.run([*into, "/lib64/ld-linux-x86-64.so.2", "--version"], capture_output=True).returncode == 0
    return root, into if allowed else None


def write_images(folder):
    """Names and shapes of Fashion-MNIST."""
    folder.mkdir()
    for prefix, n, seed in (("train", 2000, 1), ("t10k", 200, 2)):
        images, labels = make_examples(n, seed, 28)
        for name, content in (("images-idx3", idx(images, n, 28, 28)), ("labels-idx1", idx(labels, n))):
            (folder / f"{prefix}-{name}-ubyte.gz").write_bytes(gzip.compress(content, mtime=0))


print(run([SOURCE / "scripts/portable.sh", FOLDER]).splitlines()[-1], flush=True)
archive = next(FOLDER.glob("dt-*.tar.xz"))
check(archive.stat().st_size < 25_000_000, f"{archive.stat().st_size} bytes")
root, into = other_system()
(root / "opt").mkdir(parents=True, exist_ok=True)
run(["tar", "-C", root / "opt", "-xJf", archive])
unpacked = next((root / "opt").iterdir())

for file in [*(unpacked / "bin").iterdir(), *(unpacked / "lib").iterdir()]:
    dynamic = run(["readelf", "-dVW", file])
    wanted = {line.split("[")[1].split("]")[0] for line in dynamic.splitlines() if "(NEEDED)" in line}
    check(wanted <= GLIBC | {path.name for path in (unpacked / "lib").iterdir()}, f"{file.name} needs {wanted}")
    versions = [tuple(map(int, word[6:].split("."))) for word in dynamic.split() if word.startswith("GLIBC_") and word[6:7].isdigit()]
    if SOURCE.joinpath("/etc/debian_version").read_text().startswith("12"):
        check(max(versions) <= DEBIAN_12, f"{file.name} needs glibc {max(versions)}")

write_images(root / "data")
if into is None:
    print("skipped: this process may not chroot, so the programs ran with an empty environment only")
(root / "proc/self").mkdir(parents=True)  # all of /proc that a loader reads, to learn where a program lies
(root / "proc/self/exe").symlink_to(pathlib.Path("/") / unpacked.relative_to(root) / "bin/dtc")
folder = pathlib.Path("/") / unpacked.relative_to(root) if into else unpacked
data, made = ("/data", "/tmp/cnn.dtx") if into else (root / "data", root / "tmp/cnn.dtx")
print(run([*(into or []), folder / "bin/dtc", "compile", folder / "examples/fashion_cnn.dt", "-o", made], env={}, cwd="/"), end="")
log = run([*(into or []), folder / "bin/dtrun", "train", made, "--data", data, "--max-steps", 20, "--replicas", 2], env={}, cwd="/")
print(log, end="", flush=True)
check("done: 20 steps" in log, log)

# Code for GPUs: by NVRTC where the archive's dtc finds one itself, without a word of the environment.
done = subprocess.run([str(unpacked / "bin/dtc"), "compile", "--target", "cuda:sm_90", str(unpacked / "examples/fashion_cnn.dt"), "-o",
                       str(FOLDER / "gpu.dtx")], capture_output=True, text=True, env={"HOME": str(FOLDER)}, cwd="/")
if "NVRTC, the compiler of CUDA C++, is not installed" in done.stderr:
    print("skipped: NVRTC is not installed")
else:
    check(done.returncode == 0, done.stderr)
    log = run([unpacked / "bin/dtrun", "train", FOLDER / "gpu.dtx", "--data", root / "data", "--max-steps", 20], env={}, cwd="/")
    check("done: 20 steps" in log, log)
    print("code for sm_90, and a training of the same artifact on the CPU")
done = subprocess.run([unpacked / "bench/gpu.sh", "tests", FOLDER / "out"], capture_output=True, text=True, env=dict(os.environ, DT_CUDA_DRIVER="/nowhere"))
check(done.returncode == 1 and "there is no GPU here" in done.stderr, f"bench/gpu.sh: {done.returncode}, {done.stderr}")
finish()
