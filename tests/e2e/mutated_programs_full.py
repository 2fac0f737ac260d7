"""Many thousands of mutated programs: mutated_programs.py beside this file, of whose programs every fourth that compiles becomes an artifact."""
import pathlib
import subprocess
import sys

sys.exit(subprocess.run([sys.executable, pathlib.Path(__file__).with_name("mutated_programs.py"), "20000", "4"]).returncode)
