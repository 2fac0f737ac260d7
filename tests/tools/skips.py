"""skips: names the tests that were skipped, in whole or in part, by the reason that they gave; the last lines of scripts/test.sh.

    python3 tests/tools/skips.py build/tests.xml …        # what `ctest --output-junit` wrote; a file that is not there had no tests

A test says `skipped: REASON` on a line of its own, and exits with 77 if nothing is left of it. Only hardware, rights, and what a vendor alone gives out, may be
missing: everything else is installed by scripts/test.sh, so a test that is skipped for want of it, or without a word, makes the exit status 1.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree

MAY_BE_MISSING = re.compile(r"""there\ is\ no\ (GPU|/dev/net/tun) | no\ NVIDIA\ driver | GPUs\ that\ are\ not\ there
                              | x86-64 | may\ not\ (chroot|mount) | may\ not\ make\ namespaces | Slurm's\ daemons\ do\ not\ start
                              | an\ image\ cannot\ be\ made
                              | (NVRTC|cuBLASLt|cuDNN|NCCL|the\ driver) .* \ is\ not\ installed | toolkit\ with\ a\ stub""", re.VERBOSE)


def reasons(case):
    """Why a test, or part of it, was skipped."""
    said = re.findall(r"^\s*skipped: *(.*)", case.findtext("system-out") or "", re.MULTILINE)
    return said or (["without a reason"] if case.find("skipped") is not None else [])


def main():
    found = {}
    for path in filter(pathlib.Path.exists, map(pathlib.Path, sys.argv[1:])):
        for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            for reason in reasons(case):
                found.setdefault(reason, set()).add(case.get("name"))
    wrong = [reason for reason in found if not MAY_BE_MISSING.search(reason)]
    for reason, names in sorted(found.items()):
        print(f"{'SKIPPED, and should not be' if reason in wrong else 'skipped'}: {reason}\n    {' '.join(sorted(names))}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
