"""elementwise: functions and chains of them alone on one core (`dtc bench-kernel elementwise`), beside glibc's libmvec and oneDNN where these have
them.

Arrays of 64 MiB are beyond the caches: what counts is bytes read and written a second, beside what copying was measured to do. Arrays of 256 KiB
stay in a cache of the core: what counts is elements a second.
"""
import json
import statistics

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
    command = [bench.ROOT / "build/dtc", "bench-kernel", "elementwise", formula, sizes, f"--between={between}", *options, "--cpu", level, "--json"]
    return json.loads(bench.run(command).output)


def elements_per_second(found, name):
    """In thousands of millions, or None where `name` is not installed or has no such function."""
    seconds = next(t["seconds"] for t in found["times"] if t["name"] == name)
    return seconds and 64 * 1024 / seconds / 1e9


def print_table(level, n):
    bench.head(f"{level}, one core; {bench.counted(n, 'run')}", "64 MiB: GB/s", "of copying", "256 KiB: elements/ns", "libmvec", "oneDNN",
               "ours / the faster")
    for chain in CHAINS:
        large = [measure(level, *chain, sizes=LARGE) for _ in range(n)]
        small = [measure(level, *chain, sizes=SMALL) for _ in range(n)]
        rate = statistics.median(run["bytes"] / run["times"][0]["seconds"] for run in large)
        share = statistics.median(run["times"][0]["bytes_of_peak"] for run in large)
        ours = statistics.median(elements_per_second(run, "dtc") for run in small)
        peers = []
        for name in ("libmvec", "oneDNN"):
            rates = [elements_per_second(run, name) for run in small]
            peers.append(statistics.median(rates) if all(rates) else 0)
        bench.row(f"`{chain[0]}`", f"{rate / 1e9:.1f}", f"{share:.2f}", f"{ours:.2f}", *(f"{peer:.2f}" if peer else "—" for peer in peers),
                  f"{ours / max(peers):.2f}" if max(peers) else "—")


def main():
    n = bench.n_pairs(__doc__)
    for i, level in enumerate(bench.levels()):
        print("\n" if i > 0 else "", end="")
        print_table(level, n)


main()
