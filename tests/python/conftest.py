"""What the tests of the module dt share: a small program, its data, and a session of it."""
import dt
import numpy as np
import pytest

N_EXAMPLES = 96

PROGRAM = """
use nn, losses, optimizers

option width = 16

data train_set = npy("x.npy", "y.npy") | shuffle(96) | batch(16)
data test_set  = npy("x.npy", "y.npy") | batch(16)

model Net(x: f32[B, 4]) -> f32[B, 3] {
    return dense(dense(x, units: width, activation: relu), units: 3)
}

step train(x: f32[B, 4], y: u8[B]) from train_set {
    logits = Net(x)
    loss   = sparse_categorical_crossentropy(y, logits)
    minimize(loss, adam(learning_rate: 1e-2))
    report loss: mean(loss), accuracy: mean(argmax(logits) == y)
}

step evaluate(x: f32[B, 4], y: u8[B]) from test_set {
    logits = Net(x)
    report loss: mean(sparse_categorical_crossentropy(y, logits)), accuracy: mean(argmax(logits) == y)
}

step predict(x: f32[B, 4]) {
    logits = Net(x)
    return label: argmax(logits), probability: softmax(logits)
}
"""


def examples():
    """Points of three classes that a small network can tell apart."""
    random = np.random.default_rng(0)
    y = (np.arange(N_EXAMPLES) % 3).astype(np.uint8)
    x = (random.normal(size=(N_EXAMPLES, 4)) + 2 * np.eye(4)[y]).astype(np.float32)
    return x, y


@pytest.fixture(scope="session")
def program():
    return dt.compile(PROGRAM, name="net.dt")


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, array in zip("xy", examples()):
        np.save(folder / f"{name}.npy", array)
    return folder


@pytest.fixture
def session(program, data):
    return program.session(devices="cpu:1x1", data=data)


@pytest.fixture
def batch():
    x, y = examples()
    return {"x": x[:16], "y": y[:16]}
