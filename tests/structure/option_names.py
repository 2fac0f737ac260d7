"""An option that a message of the libraries names is a member of a struct of include/, or a function, under the name that base/option_names.c gives it."""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
OWN = ("compiler/commands", "compiler/codegen", "runtime/commands")  # what is typed; options of others' compilers
PROGRAM = r"(?:dtc|dtrun|mpirun|srun) "


def literals(text):
    """The strings of a C file, those that follow each other joined, conversions by macros in between as well."""
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r'"\s*(?:PRI[a-z]\d+\s*)?"', "", text))


def options(message):
    """Those that it names, outside of commands."""
    message = re.sub(rf"(?<=`){PROGRAM}[^`]*|(?:^|(?<=[ (])){PROGRAM}.*", "", message)
    return re.findall(r"(?:^|(?<=[ (`\"]))(--[a-z][a-z-]*(?:[= ](?:none|fast|ignore)\b)?|-[DOo](?![\w-]))", message)


def member(option, others):
    known = next((others[name] for name in (option, re.split("[= ]", option)[0]) if name in others), None)
    return known or re.split("[= ]", option)[0].lstrip("-").replace("-", "_")


def self_check():
    assert options("no step %s; --step picks one: `dtc compile --cpu native` (--reduce=fast), -O") == ["--step", "--reduce=fast", "-O"]
    assert options("%s: dtc compile m.dt --batch 8") == options("x--y") == options("-Dwidth=3") == []
    assert member("--global-batch", {}) == "global_batch" and member("--reduce=fast", {"--reduce=fast": "fast_sums"}) == "fast_sums"


self_check()
others = dict(re.findall(r'\{"(-[^"]+)", "(\w+)"\}', (SOURCE / "base/option_names.c").read_text()))
headers = "".join((SOURCE / "include" / name).read_text() for name in ("dtc.h", "dtrt.h"))
files = [path for folder in ("base", "compiler", "frontends", "runtime") for path in sorted((SOURCE / folder).rglob("*.c"))
         if not str(path.relative_to(SOURCE)).startswith(OWN) and path.name not in ("option_names.c", "arguments.c")]
named = {(option, path) for path in files for text in literals(path.read_text()) for option in options(text)}
assert len(others) >= 10 and len(named) >= 50, (others, len(named))
unknown = sorted((option, str(path.relative_to(SOURCE))) for option, path in named
                 if not re.search(rf"\b{member(option, others)}(?:;|\()", headers))
print("\n".join(f"{path}: {option} is `{member(option, others)}` for callers of the libraries, which include/ does not have" for option, path in unknown))
sys.exit(1 if unknown else 0)
