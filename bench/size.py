"""size: of dtrun without its symbols, and of the program that it runs."""
import pathlib
import tempfile

import side_by_side as bench


def main():
    bench.n_pairs(__doc__)
    bench.head("size", "KiB")
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "dtrun"
        bench.run(["strip", "-o", stripped, bench.ROOT / "build/dtrun"])
        bench.row("dtrun, stripped", f"{stripped.stat().st_size / 1024:.0f}")
    bench.row("fashion_cnn, compiled for all levels", f"{bench.CNN.stat().st_size / 1024:.0f}")


main()
