"""elementwise: functions and chains of them alone on one core (`dtc-bench-kernel elementwise`), beside glibc's libmvec and oneDNN where these have
them.

Arrays of 64 MiB are beyond the caches: what counts is bytes read and written a second, beside what copying was measured to do. Arrays of 256 KiB
stay in a cache of the core: what counts is elements a second.
"""
import json

import side_by_side as bench

LARGE, SMALL = "16384x1024", "64x1024"
CHAINS = (  # formula, what its inputs are spread over
    ("exp(x)", "-10,10"),
    ("log(x)", "0.1,10"),
    ("tanh(x)", "-4,4"),
    ("erf(x)", "-3,3"),
    ("sigmoid(x)", "-10,10"),
    ("gelu(x)", "-4,4"),
    ("relu(x + b)", "-1,1", "--input", "b=1024"),
    ("gelu(x + b) + y", "-4,4", "--input", "b=1024"),
)


def measure(level, formula, between, *options, sizes):
    command = [bench.ROOT / "build/dtc-bench-kernel", "elementwise", formula, sizes, f"--between={between}", *options, "--cpu", level, "--json"]
    return json.loads(bench.run(command).output)


def elements_per_second(found, name):
    """In thousands of millions, or 0 where `name` is not installed or has no such function."""
    seconds = next(t["seconds"] for t in found["times"] if t["name"] == name)
    return 64 * 1024 / seconds / 1e9 if seconds else 0


def bytes_per_second(found):
    return found["bytes"] / found["times"][0]["seconds"]


def copied_per_second(found):
    share = found["times"][0]["bytes_of_peak"]
    return bytes_per_second(found) / share if share else 0


def print_table(level, n):
    """The best of n runs of each; copying is the best of the table."""
    large = {chain[0]: [measure(level, *chain, sizes=LARGE) for _ in range(n)] for chain in CHAINS}
    small = {chain[0]: [measure(level, *chain, sizes=SMALL) for _ in range(n)] for chain in CHAINS}
    copied = max(copied_per_second(run) for runs in large.values() for run in runs)
    bench.head(f"{level}, one core; best of {bench.counted(n, 'run')}", "64 MiB: GB/s", f"of copying at {copied / 1e9:.1f}", "256 KiB: elements/ns",
               "libmvec", "oneDNN", "ours / the faster")
    for formula in large:
        rate = max(map(bytes_per_second, large[formula]))
        ours, *peers = (max(elements_per_second(run, name) for run in small[formula]) for name in ("dtc", "libmvec", "oneDNN"))
        bench.row(f"`{formula}`", f"{rate / 1e9:.1f}", f"{rate / copied:.2f}", f"{ours:.2f}", *(f"{peer:.2f}" if peer else "—" for peer in peers),
                  f"{ours / max(peers):.2f}" if max(peers) else "—")


def main():
    n = bench.n_pairs(__doc__)
    for i, level in enumerate(bench.levels()):
        print("\n" if i > 0 else "", end="")
        print_table(level, n)


main()
