"""cmake --install: what comes to lie below a prefix works wherever the prefix is moved. Programs in C17 and C++17 are built against it by pkg-config and
by find_package, without the build's folder in sight; the libraries show what the headers declare; completions and man pages know each option."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD, INSTALLED = (pathlib.Path(os.environ[name]) for name in ("DT_SOURCE", "DT_BUILD", "DT_INSTALLED"))
SUPPORT = SOURCE / "tests/support"
FOLDER = tempfile.TemporaryDirectory(prefix="dt-install-")
WORK = pathlib.Path(FOLDER.name)
PREFIX = WORK / "moved/here"
SANITIZED = "DT_SANITIZE:STRING=\n" not in (BUILD / "CMakeCache.txt").read_text()
ENVIRONMENT = {"PATH": f"{PREFIX}/bin:/usr/bin:/bin", "HOME": str(WORK), "PKG_CONFIG_PATH": f"{PREFIX}/lib/pkgconfig",
               **{name: text for name, text in os.environ.items() if name.endswith("SAN_OPTIONS")}}

CMAKE = """cmake_minimum_required(VERSION 3.25)
project(embed C CXX)
set(CMAKE_C_STANDARD 17)
set(CMAKE_CXX_STANDARD 17)
add_compile_options(-Wall -Wextra -Werror)
find_package(dt 0.1 REQUIRED)
foreach(language c cpp)
    add_executable(embed_${language} SUPPORT/embed.${language})
    target_link_libraries(embed_${language} PRIVATE dt::dtc dt::dtrt)
endforeach()
"""


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=ENVIRONMENT, cwd=WORK, **options)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def declared(header):
    """The functions that a header marks with DT_API."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    return set(re.findall(r"\bDT_API\s[^;(]*?\b(\w+)\(", text))


def shown(library, *options):
    lines = run("nm", "--defined-only", "--extern-only", *options, library).splitlines()
    return {words[2] for words in map(str.split, lines) if len(words) == 3 and words[1] != "A"}


def by_pkg_config(compiler, standard, file, *options, after=()):
    program = WORK / f"embed{len(list(WORK.glob('embed*')))}"
    flags = run("pkg-config", "--cflags", "--libs", *options, "dtc", "dtrt").split()
    run(compiler, standard, "-Wall", "-Wextra", "-Werror", SUPPORT / file, "-o", program, *flags, *after)
    return run(program)


def programs_are_built_and_run():
    here = f"-Wl,-rpath,{PREFIX}/lib"
    assert "loss" in by_pkg_config("cc", "-std=c17", "embed.c", after=[here])
    assert "all of it holds" in by_pkg_config("c++", "-std=c++17", "embed.cpp", after=[here])
    for archive in ("dtc", "dtrt"):
        (WORK / f"static/lib{archive}.a").write_bytes((PREFIX / f"lib/lib{archive}.a").read_bytes())
    llvm = run("sh", "-c", "ls -d /usr/lib/llvm-*/lib").split()[-1]
    assert "loss" in by_pkg_config("cc", "-std=c17", "embed.c", "--static", f"--define-variable=libdir={WORK}/static", after=[f"-L{llvm}"])

    (WORK / "CMakeLists.txt").write_text(CMAKE.replace("SUPPORT", str(SUPPORT)))
    run("cmake", "-G", "Ninja", "-S", WORK, "-B", WORK / "b", f"-DCMAKE_PREFIX_PATH={PREFIX}")
    run("cmake", "--build", WORK / "b")
    assert "loss" in run(WORK / "b/embed_c") and "all of it holds" in run(WORK / "b/embed_cpp")


def commands_of(program):
    return re.findall(r"^  ([a-z][a-z-]*)  ", run(program, "--help"), re.MULTILINE)


def options_of(program, command):
    """As --usage has them, which completions are not made from: with the rows of -O, which only look like options."""
    return {option for option in re.findall(r"\[--([a-z0-9-]+)", run(program, command, "--usage")) if not option.startswith("no-")}


def texts_know_each_option():
    man = PREFIX / "share/man/man1"
    for program in ("dtc", "dtrun"):
        commands = commands_of(program)
        assert len(commands) > 5
        bash = (PREFIX / f"share/bash-completion/completions/{program}").read_text()
        zsh = (PREFIX / f"share/zsh/site-functions/_{program}").read_text()
        fish = (PREFIX / f"share/fish/vendor_completions.d/{program}.fish").read_text()
        for command in commands:
            for_zsh = re.search(rf"^{command}\) .*?;;", zsh, re.MULTILINE | re.DOTALL)[0]
            for_bash = set(re.search(rf"^ *{command}\) words='(.*)'", bash, re.MULTILINE)[1].split())
            page = (man / f"{program}-{command}.1").read_text().replace("\\-", "-") if man.is_dir() else None
            options = options_of(program, command)
            assert len(options) >= 2, (command, options)
            for option in options:
                assert f"--{option}" in for_bash, f"bash: {program} {command} --{option}"
                assert re.search(rf"'--{option}[=\[]", for_zsh), f"zsh: {program} {command} --{option}"
                assert re.search(rf"_from {command}' -l {option}\b", fish), f"fish: {program} {command} --{option}"
                assert page is None or f"--{option}" in page, f"man: {program} {command} --{option}"
        listed = run("bash", "-c", f"source {PREFIX}/share/bash-completion/completions/{program}; COMP_WORDS=({program} {commands[0][:3]}); COMP_CWORD=1; "
                                   f"_{program}; echo ${{COMPREPLY[@]}}")
        assert listed.split() == [commands[0]], listed


def main():
    (WORK / "moved").mkdir()
    (WORK / "static").mkdir()
    shutil.copytree(INSTALLED, PREFIX, symlinks=True)
    for path in PREFIX.rglob("*"):
        if path.is_file() and path.suffix in (".pc", ".cmake", ".sh"):
            assert str(SOURCE) not in path.read_text() and str(INSTALLED) not in path.read_text(), f"{path} knows where it was made"

    run("dtc", "compile", PREFIX / "share/dt/examples/perceptron.dt", "-o", WORK / "m.dtx")
    assert "perceptron" in run("dtrun", "info", WORK / "m.dtx")
    assert "perceptron" in run("dtrun", "info", PREFIX / "share/dt/examples/perceptron.dt"), "dtrun finds dtc beside itself"
    assert os.access(PREFIX / "share/dt/examples/embed/build.sh", os.X_OK), "a script of the examples cannot be run"
    texts_know_each_option()
    for name in ("dtc", "dtrt"):
        wanted = declared(PREFIX / f"include/{name}.h")
        for library, options in ((f"lib{name}.so", ["--dynamic"]), (f"lib{name}.a", [])):
            found = shown(PREFIX / "lib" / library, *options)
            assert found == wanted, f"{library} lacks {sorted(wanted - found)} and shows {sorted(found - wanted)}"
    if SANITIZED:
        print("a build with sanitizers is nothing to build other programs with")
        return 0
    programs_are_built_and_run()
    return 0


sys.exit(main())
