"""The polynomials of ir/functions.def are those that ir/functions_fit.py computes, and it sees when one is not."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "ir"))
import functions_fit

sys.argv = [sys.argv[0], "--check"]
if functions_fit.main():
    sys.exit("run python3 ir/functions_fit.py and put the polynomials into ir/functions.def")
functions_fit.FITS["another"] = (functions_fit.exp_rest, "r", -1, 1, 3, 32)
if not functions_fit.main():
    sys.exit("the check accepts a polynomial that is not there")
