"""bert_hidden: makes bert_hidden.safetensors, the hidden states that KerasHub's BertBackbone gives for weights and tokens of transformers.py.

    bench/peers/.venv/bin/python tests/golden/bert_hidden.py        half a minute

`token` [4, 32], 0 where there is none; `hidden` [4, 32, 32] and `pooled` [4, 32], in f64 rounded once. The metadata has how many parameters the
backbone of the example's sizes counts. KerasHub is installed without its dependencies, which ask for tensorflow-text, but only tokenizers need it.
"""

import os
import platform

os.environ["KERAS_BACKEND"] = "torch"
import keras
import keras_hub
import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

KERAS_NAMES = {  # of a layer, after transformer_layer_N/
    "multi_head_attention/query": "self_attention_layer/query",
    "multi_head_attention/key": "self_attention_layer/key",
    "multi_head_attention/value": "self_attention_layer/value",
    "multi_head_attention/output": "self_attention_layer/attention_output",
    "layer_norm": "self_attention_layer_norm",
    "dense": "feedforward_intermediate_dense",
    "dense_1": "feedforward_output_dense",
    "layer_norm_1": "feedforward_layer_norm",
    "table": "token_embedding/embeddings",
    "position": "position_embedding/embeddings",
    "segment": "segment_embedding/embeddings",
}


def keras_path(path):
    """KerasHub's for one of ours: Bert/encoder_1/dense/kernel is transformer_layer_1/feedforward_intermediate_dense/kernel."""
    path = path.removeprefix("Bert/")
    if path in KERAS_NAMES:
        return KERAS_NAMES[path]
    if not path.startswith("encoder"):
        return path.replace("layer_norm/", "embeddings_layer_norm/")
    encoder, layer = path.split("/", 1)
    layer, leaf = layer.rsplit("/", 1)
    return f"transformer_layer_{encoder.partition('_')[2] or 0}/{KERAS_NAMES[layer]}/{leaf}"


def backbone(sizes, dtype=None):
    return keras_hub.models.BertBackbone(vocabulary_size=transformers.VOCABULARY, num_layers=sizes["layers"], num_heads=sizes["heads"],
                                         hidden_dim=sizes["width"], intermediate_dim=4 * sizes["width"], max_sequence_length=sizes["context"],
                                         dtype=dtype)


n_parameters = backbone(transformers.SIZES["bert_full"]).count_params()

model = backbone(transformers.SIZES["bert"], dtype="float64")
given = {keras_path(path): array for path, array in transformers.scattered_weights("bert").items() if path.startswith("Bert/")}
for weight in model.weights:
    weight.assign(given.pop(weight.path).reshape(weight.shape))
assert not given, f"KerasHub has no {list(given)}"

token = transformers.batches("bert")["masked"][:4]
found = model({"token_ids": token, "segment_ids": np.zeros_like(token), "padding_mask": (token != 0).astype(np.int32)})
hidden, pooled = (keras.ops.convert_to_numpy(found[name]) for name in ("sequence_output", "pooled_output"))
assert hidden.dtype == np.float64
versions = {"python": platform.python_version(), "keras_hub": keras_hub.__version__, "keras": keras.__version__, "torch": torch.__version__}
save_file({"token": token, "hidden": hidden.astype(np.float32), "pooled": pooled.astype(np.float32)},
          os.path.join(os.path.dirname(os.path.abspath(__file__)), "bert_hidden.safetensors"),
          metadata={"parameters": str(n_parameters), **versions})
print(f"{n_parameters:,} parameters; hidden states to {abs(hidden).max():.3f}")
