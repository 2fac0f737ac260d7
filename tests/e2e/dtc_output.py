"""Where dtc -o writes: files are replaced as a whole, behind links; a pipe gets the bytes, and stays a pipe; what cannot be written to is said."""
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
PROGRAM = SOURCE / "examples/perceptron.dt"


def compile_to(output, *flags, code=0):
    done = subprocess.run(["dtc", "compile", PROGRAM, "-o", output, *flags], capture_output=True, text=True)
    assert done.returncode == code, f"-o {output} {flags}: exit {done.returncode}\n{done.stderr}"
    return done.stderr if code else done.stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        plan = subprocess.run(["dtc", "compile", PROGRAM, "--emit=plan"], capture_output=True, text=True, check=True).stdout
        assert compile_to("/dev/stdout", "--emit=plan") == plan

        file, link, pipe, full = folder / "file", folder / "link", folder / "pipe", folder / "full"
        link.symlink_to("file")
        for flags in ([], ["--emit=plan"]):
            file.write_text("old")
            compile_to(link, *flags)
            assert link.is_symlink() and file.read_bytes() != b"old", flags
        assert file.read_text() == plan

        os.mkfifo(pipe)
        compile_to(file)
        for flags, wanted in ([], file.read_bytes()), (["--emit=plan"], plan.encode()):
            with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
                compile_to(pipe, *flags)
                assert reader.communicate()[0] == wanted, flags
        assert stat.S_ISFIFO(pipe.stat().st_mode)

        full.mkdir()
        for flags in ([], ["--emit=plan"]):
            assert "full: cannot be written: it is a folder" in compile_to(full, *flags, code=1)
        assert sorted(path.name for path in folder.iterdir()) == ["file", "full", "link", "pipe"], "something is left behind"
    return 0


if __name__ == "__main__":
    sys.exit(main())
