"""From arrays of NumPy's to a model that is trained, plotted, saved and served, in Python alone: points of three spirals, told apart by a small network.

    python examples/python/arrays.py [FOLDER FOR WHAT IT WRITES]
"""
import http.server
import json
import pathlib
import sys
import tempfile
import threading
import urllib.request

import dt
import numpy as np

PROGRAM = """
use nn, losses, optimizers

launch rate = 0.01

model Net(point: f32[B, 2]) -> f32[B, 3] {
    x = dense(point, units: 64, activation: relu)
    x = dense(x, units: 64, activation: relu)
    return dense(x, units: 3)
}

step train(point: f32[B, 2], label: u8[B]) {
    logits = Net(point)
    loss   = sparse_categorical_crossentropy(label, logits)
    minimize(loss, adam(learning_rate: rate))
    report loss: mean(loss), accuracy: mean(argmax(logits) == label)
}

step evaluate(point: f32[B, 2], label: u8[B]) {
    logits = Net(point)
    report loss: mean(sparse_categorical_crossentropy(label, logits)), accuracy: mean(argmax(logits) == label)
}

step predict(point: f32[B, 2]) {
    logits = Net(point)
    return label: argmax(logits), probability: softmax(logits)
}
"""


def spirals(n, seed):
    """n points of each of three arms, and which arm each is on."""
    random = np.random.default_rng(seed)
    label = np.repeat(np.arange(3, dtype=np.uint8), n)
    along = np.tile(np.linspace(0.05, 1, n), 3)
    angle = 4 * along + label * 2 * np.pi / 3 + random.normal(scale=0.15, size=3 * n)
    return np.stack([along * np.sin(angle), along * np.cos(angle)], axis=1).astype(np.float32), label


folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
point, label = spirals(1000, seed=0)
test_point, test_label = spirals(200, seed=1)

# Trained: batches of 64 in another order each epoch, until five epochs bring no gain; the best checkpoint is kept.
program = dt.compile(PROGRAM, batch=64)
session = program.session(checkpoints=folder / "checkpoints")
training = session.train({"point": point, "label": label}, batch_size=64, validation={"point": test_point, "label": test_label}, epochs=60,
                         keep_best="evaluate.accuracy", stop_after_no_gain=5, reduce_on_plateau="evaluate.loss:rate,patience=2",
                         log_dir=folder / "log")
for report in training:
    print(report)

# Plotted: a page with curves, where time and memory go, and the layers. A notebook shows `training` as a table with curves.
dt.report(folder / "log", output=folder / "report.html")
print("curves in", folder / "report.html")

# Saved, and read again by another session.
path = session.save(folder / "model")
served = program.session(forward_only=True)
served.load(path)
print("evaluation", served.evaluate(point=test_point, label=test_label))


# Served: a session is used by one thread at a time, and so is this server.
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = np.array(json.loads(self.rfile.read(int(self.headers["Content-Length"]))), np.float32)
        answer = json.dumps(served.predict(asked)["label"].tolist()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass


with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    request = urllib.request.Request(f"http://127.0.0.1:{server.server_port}", json.dumps(test_point[::50].tolist()).encode())
    print("asked for", test_label[::50].tolist(), "it answers", json.loads(urllib.request.urlopen(request).read()))
    server.shutdown()
