"""transformers: initial weights and batches for the twins of tests/twins, which any machine with NumPy makes again to the bit.

    python3 tests/golden/transformers.py NAME FOLDER      writes weights.safetensors and the batches as npy; prints the digest of the weights

NAME is a row of SIZES. All numbers come from NumPy's RandomState, which is frozen for good. A few tokens are most of all tokens, so
that there is something to learn. Masking, padding and predictions that do not count stand in the batches as they would in real ones.
"""

import os
import sys

import glorot
import numpy as np
from safetensors.numpy import save_file

VOCABULARY = 30522
BYTES = 256

# context, width and the rest as the options of the programs; `batch` rows a step, `steps` of the golden curve. heads and layers are the programs' own.
SIZES = {
    "bert": {"program": "bert_mlm", "context": 32, "predictions": 8, "width": 32, "layers": 2, "heads": 2, "batch": 8, "steps": 100},
    "bert_full": {"program": "bert_mlm", "context": 512, "predictions": 96, "width": 128, "layers": 2, "heads": 2, "batch": 8, "steps": 100},
    "gpt": {"program": "gpt", "context": 24, "width": 32, "layers": 2, "heads": 2, "batch": 8, "steps": 50},
    "gpt_full": {"program": "gpt", "context": 128, "width": 128, "layers": 4, "heads": 4, "batch": 32, "steps": 50},
}
SEED = 3


def normal(random, *shape):
    return (0.02 * np.clip(random.standard_normal(shape), -2, 2)).astype(np.float32)


def dense(weights, random, path, n_in, n_out):
    weights[f"{path}/kernel"] = glorot.glorot_uniform(random, (n_in, n_out))
    weights[f"{path}/bias"] = np.zeros(n_out, np.float32)


def layer_norm(weights, path, width):
    weights[f"{path}/gamma"] = np.ones(width, np.float32)
    weights[f"{path}/beta"] = np.zeros(width, np.float32)


def suffix(i):
    return f"_{i}" if i else ""


def bert_weights(sizes, random):
    width = sizes["width"]
    weights = {
        "Bert/table": normal(random, VOCABULARY, width),
        "Bert/position": normal(random, sizes["context"], width),
        "Bert/segment": normal(random, 2, width),
    }
    layer_norm(weights, "Bert/layer_norm", width)
    for i in range(sizes["layers"]):
        path = f"Bert/encoder{suffix(i)}"
        for name in ("query", "key", "value", "output"):
            dense(weights, random, f"{path}/multi_head_attention/{name}", width, width)
        layer_norm(weights, f"{path}/layer_norm", width)
        dense(weights, random, f"{path}/dense", width, 4 * width)
        dense(weights, random, f"{path}/dense_1", 4 * width, width)
        layer_norm(weights, f"{path}/layer_norm_1", width)
    dense(weights, random, "Bert/pooled_dense", width, width)
    dense(weights, random, "MaskedLm/dense", width, width)
    layer_norm(weights, "MaskedLm/layer_norm", width)
    weights["MaskedLm/bias"] = np.zeros(VOCABULARY, np.float32)
    return weights


def gpt_weights(sizes, random):
    width = sizes["width"]
    weights = {"Gpt/table": normal(random, BYTES, width), "Gpt/position": normal(random, sizes["context"], width)}
    for i in range(sizes["layers"]):
        path = f"Gpt/block{suffix(i)}"
        layer_norm(weights, f"{path}/layer_norm", width)
        dense(weights, random, f"{path}/attention/dense", width, 3 * width)
        dense(weights, random, f"{path}/attention/dense_1", width, width)
        layer_norm(weights, f"{path}/layer_norm_1", width)
        dense(weights, random, f"{path}/dense", width, 4 * width)
        dense(weights, random, f"{path}/dense_1", 4 * width, width)
    layer_norm(weights, "Gpt/layer_norm", width)
    return weights


def skewed(random, shape, first, last):
    """Whole numbers from first to last, few of them most of the time."""
    return np.floor(first * (last / first) ** random.random_sample(shape) ** 3).astype(np.int32)


def bert_batches(sizes, random):
    """[CLS] … [SEP], padded with 0; 15 % of the others are to be predicted: 80 % of these are masked, 10 % random, 10 % as they were."""
    rows, context, predictions = sizes["batch"] * sizes["steps"], sizes["context"], sizes["predictions"]
    masked = np.zeros((rows, context), np.int32)
    position, label = np.zeros((2, rows, predictions), np.int32)
    weight = np.zeros((rows, predictions), np.float32)
    for r in range(rows):
        length = random.randint(context // 2, context + 1)
        masked[r, 0], masked[r, length - 1] = 101, 102
        masked[r, 1 : length - 1] = skewed(random, length - 2, 1000, VOCABULARY - 1)
        n = min(max(1, round(0.15 * (length - 2))), predictions)
        position[r, :n] = np.sort(1 + random.permutation(length - 2)[:n])
        label[r] = masked[r, position[r]]
        weight[r, :n] = 1
        for p in position[r, :n]:
            choice = random.random_sample()
            masked[r, p] = 103 if choice < 0.8 else random.randint(VOCABULARY) if choice < 0.9 else masked[r, p]
    return {"masked": masked, "position": position, "label": label, "weight": weight}


def gpt_batches(sizes, random):
    """Bytes of which each says something about the next."""
    rows, context = sizes["batch"] * sizes["steps"], sizes["context"]
    text = skewed(random, (rows, context + 1), 1, BYTES)
    for t in range(1, context + 1):
        text[:, t] = np.where(random.random_sample(rows) < 0.5, (7 * text[:, t - 1] + 3) % BYTES, text[:, t] % BYTES)
    return {"text": text.astype(np.uint8)}


def weights_of(sizes):
    random = np.random.RandomState(SEED)
    return (bert_weights if sizes["program"] == "bert_mlm" else gpt_weights)(sizes, random)


def weights(name):
    return weights_of(SIZES[name])


def scattered_weights(name):
    """As `weights`, but no element is a common one: a bias that is forgotten shows, and two that are swapped."""
    random = np.random.RandomState(SEED + 2)
    return {path: (array + 0.1 * random.standard_normal(array.shape)).astype(np.float32) for path, array in weights(name).items()}


def batches_of(sizes):
    """{input of the step: array of all rows}, `batch` rows a step."""
    random = np.random.RandomState(SEED + 1)
    return (bert_batches if sizes["program"] == "bert_mlm" else gpt_batches)(sizes, random)


def batches(name):
    return batches_of(SIZES[name])


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SIZES:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(SIZES)} FOLDER")
    _, name, folder = sys.argv
    save_file(weights(name), os.path.join(folder, "weights.safetensors"))
    for column, array in batches(name).items():
        np.save(os.path.join(folder, f"{column}.npy"), array)
    print(glorot.digest(weights(name)))
