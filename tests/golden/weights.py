"""weights: makes weights/, two small networks of PyTorch and of Keras that are twins of examples/fashion_cnn.dt, and what they answer.

    bench/peers/.venv/bin/python tests/golden/weights.py
    bench/peers/.venv/bin/python tests/golden/weights.py pytorch|keras WEIGHTS IMAGES.npy OUT.npy      what a twin answers with other weights

weights/pytorch.safetensors and keras.safetensors are what scripts/convert_weights.py makes of a .pt and a .weights.h5 that the frameworks wrote;
weights/answers.safetensors holds images and the probabilities that each network gives them.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "torch")
FOLDER = pathlib.Path(__file__).resolve().parent / "weights"
CONVERT = FOLDER.parents[2] / "scripts/convert_weights.py"
FILTERS = (4, 8)  # of the small networks; the example has 64 and 128


def softmax(logits):
    e = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(np.float32)


def pytorch_twin(filters):
    import torch

    torch.manual_seed(1)

    class Cnn(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = torch.nn.Conv2d(1, filters[0], 3)
            self.conv2 = torch.nn.Conv2d(filters[0], filters[1], 3)
            self.fc = torch.nn.Linear(filters[1] * 5 * 5, 10)

        def forward(self, image):
            x = torch.max_pool2d(torch.relu(self.conv1(image[:, None] / 255)), 2)
            x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
            return self.fc(x.flatten(1))

    return Cnn().eval()


def pytorch_answers(twin, images):
    import torch

    with torch.no_grad():
        return softmax(twin(torch.tensor(images, dtype=torch.float32)).numpy())


def keras_twin(filters):
    import keras

    keras.utils.set_random_seed(1)
    return keras.Sequential([
        keras.Input((28, 28)),
        keras.layers.Reshape((28, 28, 1)),
        keras.layers.Conv2D(filters[0], 3, activation="relu", bias_initializer="random_normal"),
        keras.layers.MaxPooling2D(2),
        keras.layers.Conv2D(filters[1], 3, activation="relu", bias_initializer="random_normal"),
        keras.layers.MaxPooling2D(2),
        keras.layers.Flatten(),
        keras.layers.Dense(10, bias_initializer="random_normal"),
    ])


def keras_answers(twin, images):
    return softmax(np.asarray(twin.predict(images.astype(np.float32) / 255, verbose=0)))


def make():
    import torch
    from safetensors.numpy import save_file

    images = np.random.default_rng(1).integers(0, 256, (8, 28, 28), dtype=np.uint8)
    pytorch, keras = pytorch_twin(FILTERS), keras_twin(FILTERS)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(pytorch.state_dict(), f"{folder}/pytorch.pt")
        keras.save_weights(f"{folder}/keras.weights.h5")
        for name in ("pytorch.pt", "keras.weights.h5"):
            subprocess.run([sys.executable, CONVERT, f"{folder}/{name}", FOLDER / f"{name.split('.')[0]}.safetensors"], check=True)
    answers = {"images": images, "pytorch": pytorch_answers(pytorch, images), "keras": keras_answers(keras, images)}
    save_file(answers, FOLDER / "answers.safetensors")


def answer(framework, weights, images, out):
    """With the example's own filters."""
    if framework == "pytorch":
        import torch

        twin = pytorch_twin((64, 128))
        twin.load_state_dict(torch.load(weights, weights_only=True))
        np.save(out, pytorch_answers(twin, np.load(images)))
    else:
        twin = keras_twin((64, 128))
        twin.load_weights(weights)
        np.save(out, keras_answers(twin, np.load(images)))


if __name__ == "__main__":
    answer(*sys.argv[1:]) if len(sys.argv) > 1 else make()
