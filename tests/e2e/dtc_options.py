"""dtc's options, misused: each mistake is one clear error and a status that is not 0, and no file is lost."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(os.environ["DT_SOURCE"]) / "examples"
FOLDER = tempfile.TemporaryDirectory(prefix="dt-options-")
os.chdir(FOLDER.name)

for name in ("own_parts", "resnet"):
    pathlib.Path(f"{name}.dt").write_text((EXAMPLES / f"{name}.dt").read_text())
GRAPH = subprocess.run(["dtc", "compile", "own_parts.dt", "--emit=ir"], capture_output=True, text=True, check=True).stdout
pathlib.Path("graph.ir").write_text(GRAPH)
pathlib.Path("sizeless.ir").write_text(GRAPH.replace(" capacity 32", "", 1))
pathlib.Path("huge.ir").write_text(GRAPH.replace(" capacity 32", " capacity 99999999999", 1))
pathlib.Path("huge.dt").write_text((EXAMPLES / "own_parts.dt").read_text().replace("batch(32)", "batch(5000000000)"))
pathlib.Path("cut.dt").write_text((EXAMPLES / "own_parts.dt").read_text() + "\0 step of nonsense")
pathlib.Path("cut.ir").write_text(GRAPH + "\0 nonsense")
pathlib.Path("archive.dt").write_bytes(b"PK\3\4\0\0")
pathlib.Path("link.dt").symlink_to("own_parts.dt")
os.link("own_parts.dt", "same.dt")

USAGE, FAILED = 2, 1
COMPILE = "compile own_parts.dt -o x.dtx"

# arguments (split at blanks; _ is an empty one), exit status, a part of the message
MISTAKES = [
    ("", USAGE, "Usage: dtc COMMAND"),
    ("compil own_parts.dt", USAGE, 'there is no command "compil"; did you mean compile?'),
    ("compile", USAGE, "which program?"),
    ("compile own_parts.dt resnet.dt", USAGE, "one program at a time"),
    ("compile nowhere.dt", FAILED, "nowhere.dt: cannot open"),
    ("compile .", FAILED, "Is a directory"),
    ("compile /dev/zero -o x.dtx", FAILED, "/dev/zero: is a device, not a file"),
    ("compile cut.dt -o x.dtx", FAILED, "cut.dt is no text: byte "),
    ("compile archive.dt -o x.dtx", FAILED, "archive.dt is an artifact, or another zip file"),
    *((f"{COMPILE} --batch {rows}", USAGE, f'--batch takes a number of rows, from 1 to 2147483647, not "{"" if rows == "_" else rows}"')
      for rows in ("0", "-1", "+5", "1x", "1e3", "_", "2147483648", "9223372036854775807", "99999999999999999999999")),
    ("compile huge.dt -o x.dtx", FAILED, "batch(n) takes at most 2147483647, not 5000000000"),
    ("compile huge.ir -o x.dtx", FAILED, "not for 99999999999; --batch says for how many"),
    ("summary huge.ir", FAILED, "not for 99999999999; --batch says for how many"),
    ("compile sizeless.ir -o x.dtx", FAILED, "for how many rows is memory to be planned? --batch says it"),
    *((f"compile resnet.dt -o x.dtx -D {define}", FAILED, "write -D name=value") for define in ("blocks", "=", "=1", "_")),
    ("compile resnet.dt -o x.dtx -D block=1", FAILED, "did you mean blocks?"),
    ("compile resnet.dt -o x.dtx -D blocks=1 -D blocks=2", USAGE, "-D blocks=2: blocks is set twice, to 1 before"),
    ("compile resnet.dt -o x.dtx -D blocks=", FAILED, "expected an expression"),
    ("compile resnet.dt -o x.dtx -D blocks=2.5", FAILED, "option blocks is 2, -D sets it to 2.5"),
    ("compile graph.ir -o x.dtx -D blocks=1", FAILED, "a graph has no options left to set"),
    *((f"{COMPILE} --cpu {levels}", USAGE, f'--cpu: no instruction set level "{wrong}"')
      for levels, wrong in (("_", ""), (",", ""), ("x86-64-v3,", ""), ("x86-64-v5", "x86-64-v5"), ("native,x86", "x86"))),
    (f"{COMPILE} --cpu x86-64-v3,x86-64-v3", USAGE, "--cpu: x86-64-v3 is there twice"),
    ("compile own_parts.dt --emit=ir --cpu bogus", USAGE, 'no instruction set level "bogus"'),
    ("compile own_parts.dt --emit=llvm --cpu x86-64-v3,x86-64-v4", USAGE, "--emit=llvm prints the code of one level, --cpu x86-64-v3,x86-64-v4 names 2"),
    *((f"{COMPILE} --target {target}", USAGE, f'there is no target "{"" if target == "_" else target}"') for target in ("_", "cpu:2", "gpu", "cudas")),
    *((f"{COMPILE} --target cuda:{names}", USAGE, f'"{wrong}" is no architecture') for names, wrong in (("", ""), ("sm_9", "sm_9"), ("sm_90,", ""))),
    ("compile own_parts.dt --emit=cuda", USAGE, "--emit=cuda prints what --target cuda generates"),
    ("compile own_parts.dt --emit=llvm --target cuda", USAGE, "try --emit=cuda"),
    ("compile own_parts.dt --emit=bogus", USAGE, 'there is no stage "bogus"'),
    (f"{COMPILE} --library some", USAGE, "--library is auto or none"),
    (f"{COMPILE} --precision f64", USAGE, "--precision takes f32, tf32, bf16, mixed_bf16 or mixed_f16"),
    (f"{COMPILE} -O no-fus", USAGE, 'did you mean "no-fuse"?'),
    (f"{COMPILE} --dump-after bogus", USAGE, 'there is no pass "bogus"'),
    ("compile own_parts.dt --emit=ir --dump-after plan_memory", FAILED, "--dump-after=plan_memory: this pass is not run"),
    (f"{COMPILE} -O no-sink --dump-after sink", FAILED, "--dump-after=sink: this pass is not run"),
    ("compile own_parts.dt -o _", USAGE, "-o takes the name of a file"),
    ("compile own_parts.dt -o nowhere/x.dtx", FAILED, "nowhere/x.dtx: cannot create: No such file"),
    ("compile own_parts.dt -o .", FAILED, "it is a folder"),
    *((f"compile own_parts.dt{emit} -o {name}", FAILED, f"-o {name}: this would overwrite what is read")
      for emit in ("", " --emit=ir") for name in ("own_parts.dt", "link.dt", "same.dt")),
    ("compile own_parts.dt -o resnet.dt", FAILED, "-o resnet.dt: .dt is the end of a program's name"),
    ("opt", USAGE, "which file?"),
    ("opt graph.ir sizeless.ir", USAGE, "one file at a time"),
    ("opt --pass fuse --pass shrink graph.ir", USAGE, 'one pass at a time: "fuse" or "shrink"?'),
    ("opt --pass bogus graph.ir", USAGE, 'there is no pass "bogus"'),
    ("opt --pass partition graph.ir", FAILED, "gradient must be resolved before partition"),
    ("opt own_parts.dt", FAILED, "`dtc compile --emit=ir` prints one"),
    ("opt cut.ir", FAILED, "cut.ir is no text: byte "),
    ("opt graph.ir -o graph.ir", FAILED, "this would overwrite what is read"),
    ("opt graph.ir -o _", USAGE, "-o takes the name of a file"),
    ("opt graph.ir -o /dev/full", FAILED, "No space left on device"),
    ("ops bogus", FAILED, 'there is no op "bogus"'),
    ("ops --bogus", USAGE, "there is no option"),
    ("summary own_parts.dt --cpu native", USAGE, "there is no option"),
]

files = {path: path.read_bytes() for path in pathlib.Path().iterdir()}
n_wrong = 0
for words, code, message in MISTAKES:
    arguments = ["" if word == "_" else word for word in words.split()]
    done = subprocess.run(["dtc", *arguments], capture_output=True, text=True, timeout=60)
    after = {path: path.read_bytes() for path in pathlib.Path().iterdir()}
    if done.returncode != code or message not in done.stderr or done.stdout or after != files:
        n_wrong += 1
        changed = sorted(str(path) for path in {*files, *after} if files.get(path) != after.get(path))
        print(f"dtc {words}\n  exit status {done.returncode}, wanted {code} and: {message}\n  files changed: {changed}\n  {done.stderr[:400]}")
        for path in after:
            path.unlink()
        for path, content in files.items():
            path.write_bytes(content)

done = subprocess.run(["dtc", "compile", "resnet.dt", "-D", "blocks=x"], capture_output=True, text=True)
if "schedule" in done.stderr or "unknown name x" not in done.stderr:
    n_wrong += 1
    print(f"an option that cannot be read is one mistake, and no other follows from it:\n{done.stderr}")
for words in ("ops --", "ops"):
    if subprocess.run(["dtc", *words.split()], capture_output=True, text=True).stdout.count("NumPy") < 50:
        n_wrong += 1
        print(f"dtc {words} prints them all")
usage = " ".join(subprocess.run(["dtc", "compile", "--help"], capture_output=True, text=True).stdout.split())
listed = re.search(r"to standard error: ([\w, ]+?) -", usage).group(1).split(", ")
dumped = subprocess.run(["dtc", "compile", "own_parts.dt", "-o", "dumped.dtx", "--dump-after=all"], capture_output=True, text=True).stderr
passes = list(dict.fromkeys(re.findall(r"^# after (\w+)$", dumped, re.M)))
if listed != passes:
    n_wrong += 1
    print(f"--help lists the passes {listed}, there are {passes}")
print(f"{len(MISTAKES)} mistakes, {n_wrong} told wrongly")
sys.exit(n_wrong > 0)
