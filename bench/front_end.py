"""front_end: how long dtc takes for the text of a large program: parsing, and all types and shapes, of 1,000 lines."""
import pathlib
import re
import statistics
import subprocess
import tempfile

import side_by_side as bench

N_RUNS = 15


def program(n_lines):
    """A model of blocks, each a layer of its own of a dozen lines, two steps, and comments: as programs are written, only longer."""
    out = ["# made up", "use nn, losses, optimizers", "", "option width = 64", ""]
    n_blocks = (n_lines - 35) // 14
    for i in range(n_blocks):
        out += [f"# block {i}: two dense layers around a gate, with a residual",
                f"layer block_{i}(x: f32[B, C], units: int = {32 + i}) -> f32[B, C] {{",
                "    param gain: f32[C] = ones()",
                "    state seen: i64 = 0",
                "    if training { seen := seen + count(x) }",
                "    h = layer_norm(x * gain)",
                "    h = dense(h, units: units, activation: gelu) as up",
                "    gate = sigmoid(dense(h, units: C)) * 0.5 + 0.25",
                f"    y = dense(h, units: C) * gate - {i} / (1 + mean(abs(h), axis: -1)[:, newaxis])",
                "    for k in 0..2 { y = y + tanh(y) * (k + 1) / 10 }",
                "    y = dropout(y, rate: 0.1) if training else y",
                "    return x + where(y > 0, y, 0.01 * y)", "}", ""]
    out += ["model Net(x: f32[B, 64]) -> f32[B, 10] {", "    x = dense(x, units: width)"]
    out += [f"    x = block_{i}(x)" for i in range(n_blocks)]
    out += ["    return dense(x, units: 10)", "}", ""]
    for name in "train", "evaluate":
        out += [f"step {name}(x: f32[B, 64], label: u8[B]) {{", "    logits = Net(x)",
                "    loss   = sparse_categorical_crossentropy(label, logits)"]
        out += ["    minimize(loss, adam(learning_rate: 1e-3))"] if name == "train" else []
        out += ["    report loss: mean(loss), accuracy: mean(argmax(logits) == label)", "}", ""]
    return "\n".join(out)


def main():
    bench.n_pairs(__doc__)
    text = program(1000)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "large.dt"
        path.write_text(text)
        times = []
        for _ in range(N_RUNS):
            done = subprocess.run([bench.ROOT / "build/dtc", "compile", path, "--emit=ir", "--time-passes"], capture_output=True, text=True, check=True)
            times.append(float(re.search(r"front end\s+([\d.]+) ms", done.stderr)[1]))
    bench.head(f"parsing and types; {N_RUNS} runs", "median, ms", "least, ms")
    bench.row(f"{text.count(chr(10)):,} lines", f"{statistics.median(times):.1f}", f"{min(times):.1f}")


main()
