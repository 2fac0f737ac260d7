"""What tests/python/test_frameworks_full.py runs in the environment of bench/peers: arrays of other frameworks in, results out.

A PyTorch DataLoader and a tf.data.Dataset give the same batches as NumPy does, so all that comes of them has the same bits.
"""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import dt  # noqa: E402
import jax  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import torch  # noqa: E402

PROGRAM = """
use nn, losses, optimizers

model Net(x: f32[B, 4]) -> f32[B, 3] {
    return dense(dense(x, units: 16, activation: relu), units: 3)
}

step train(x: f32[B, 4], y: u8[B]) {
    logits = Net(x)
    loss   = sparse_categorical_crossentropy(y, logits)
    minimize(loss, adam(learning_rate: 1e-2))
    report loss: mean(loss)
}

step predict(x: f32[B, 4]) {
    return logits: Net(x)
}

step halves(x: bf16[B, 2]) {
    return twice: x + x
}
"""


def batches_of_torch(x, y):
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=16)


def batches_of_tensorflow(x, y):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(16)


def trained(program, batches):
    session = program.session(devices="cpu:1x1")
    reports = session.train(batches, epochs=3).run().reports
    return [dict(report) for report in reports], session["Net/dense/kernel"].copy()


def main():
    random = np.random.default_rng(0)
    y = (np.arange(90) % 3).astype(np.uint8)
    x = (random.normal(size=(90, 4)) + 2 * np.eye(4)[y]).astype(np.float32)
    program = dt.compile(PROGRAM, batch=16)
    wanted, kernel = trained(program, [(x[i:i + 16], y[i:i + 16]) for i in range(0, 90, 16)])
    assert wanted[2]["loss"] < wanted[0]["loss"]
    for batches in (batches_of_torch(x, y), batches_of_tensorflow(x, y)):
        reports, theirs = trained(program, batches)
        assert reports == wanted and np.array_equal(theirs, kernel), type(batches)

    session = program.session(devices="cpu:1x1")
    wanted = session.predict(x[:5])["logits"]
    for array in (torch.from_numpy(x[:5]), torch.from_numpy(x)[:5].T.contiguous().T, tf.constant(x[:5]), jax.numpy.asarray(x[:5])):
        assert np.array_equal(session.step("predict", x=array)["logits"], wanted), type(array)
    for wrong in (torch.from_numpy(x[:5]).double(), tf.constant(x[:5].astype(np.float64)), torch.zeros(5, 4, dtype=torch.complex64)):
        try:
            session.step("predict", x=wrong)
            raise AssertionError(type(wrong))
        except TypeError:
            pass

    # Out again: the memory of the result, not a copy.
    for from_dlpack in (torch.from_dlpack, np.from_dlpack):
        ours = session.predict(x[:5])["logits"]
        theirs = from_dlpack(ours)
        ours[0, 0] = 17
        assert theirs[0, 0] == 17

    half = torch.tensor([[1.0, 2.5], [3.0, -4.0]], dtype=torch.bfloat16)
    twice = session.step("halves", x=half)["twice"]
    assert twice.dtype == ml_dtypes.bfloat16 and np.array_equal(twice.astype(np.float32), 2 * half.float().numpy())
    print("arrays of PyTorch, TensorFlow and JAX are taken and given")


main()
