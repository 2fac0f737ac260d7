"""Options that messages name are there: a command takes each, and what base/option_names.c calls it otherwise is a member or a function of include/."""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
OWN = ("compiler/commands", "compiler/codegen", "runtime/commands", "runtime/ps")  # what is typed; options of others' compilers; what commands alone run
PROGRAM = r"(?:dtc|dtrun|mpirun|srun) "


def literals(text):
    """The strings of a C file, those that follow each other joined, conversions by macros in between as well."""
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r'"\s*(?:PRI[a-z]\d+\s*)?"', "", text))


def options(message):
    """Those that it names, outside of commands that it quotes."""
    message = re.sub(rf"(?<=`){PROGRAM}[^`]*|(?:^|(?<=[ (])){PROGRAM}.*", "", message)
    return re.findall(r"(?:^|(?<=[ (`\"]))(--[a-z][a-z-]*(?:[= ](?:none|fast|ignore)\b)?|-[DOo](?![\w-]))", message)


def self_check():
    assert options("no step %s; --step picks one: `dtc compile --cpu native` (--reduce=fast), -O") == ["--step", "--reduce=fast", "-O"]
    assert options("%s: dtc compile m.dt --batch 8") == options("x--y") == options("-Dwidth=3") == []


self_check()
others = dict(re.findall(r'\{"(-[^"]+)", "(\w+)"\}', (SOURCE / "base/option_names.c").read_text()))
headers = "".join((SOURCE / "include" / name).read_text() for name in ("dtc.h", "dtrt.h"))
commands = "".join(path.read_text() for folder in OWN if "commands" in folder for path in sorted((SOURCE / folder).glob("*.[ch]")))
commands += (SOURCE / "runtime/options.c").read_text()
taken = {f"--{name}" for name in re.findall(r'\{\s*(?:DT_FOR_[A-Z_ |&~]+, )?"([a-z][a-z-]*)",\s*(?:\'.\'|\w+|"[^"]*"),', commands)}
files = [path for folder in ("base", "compiler", "frontends", "runtime") for path in sorted((SOURCE / folder).rglob("*.c"))
         if not str(path.relative_to(SOURCE)).startswith(OWN) and path.name not in ("option_names.c", "arguments.c")]
named = {(re.split("[= ]", option)[0], str(path.relative_to(SOURCE))) for path in files for text in literals(path.read_text()) for option in options(text)}
assert len(others) >= 10 and len(named) >= 50 and len(taken) >= 50, (others, len(named), len(taken))
found = [f"{path}: no command takes {option}" for option, path in sorted(named) if option.startswith("--") and option not in taken]
found += [f"base/option_names.c: include/ has no {name}" for name in sorted(set(others.values())) if not re.search(rf"\b{name}(?:;|\()", headers)]
print("\n".join(found) or "options are there")
sys.exit(1 if found else 0)
