"""embedding: makes embedding/, a small BERT of random weights with its vocabulary, some sentences, and the embeddings that sentence-transformers'
steps give them: tokens by PyPI's tokenizers, hidden states by transformers, the mean over the tokens, length 1.

    bench/peers/.venv/bin/python tests/golden/embedding.py
"""
import pathlib
import sys

sys.path.pop(0)  # this folder, which has a transformers.py of its own

import torch
from safetensors.torch import save_file
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertModel

FOLDER = pathlib.Path(__file__).resolve().parent / "embedding"
LENGTH = 16
WORDS = "in the beginning god created heaven and earth was without form void spirit moved upon face of waters light ##s ##ed ##ing , . a b c".split()
SENTENCES = ["In the beginning God created the heaven and the earth.", "The earth was without form, and void", "light", "", "waters of the waters, moved moving",
             "Unknowable words of the spirit", "a b c a b c a b c a b c a b c a b c a b c a b c", "LIGHTS and lighted waters."]


def main():
    FOLDER.mkdir(exist_ok=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    (FOLDER / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary))
    (FOLDER / "sentences.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    tokenizer = BertWordPieceTokenizer({word: i for i, word in enumerate(vocabulary)}, lowercase=True)
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)
    encoded = tokenizer.encode_batch(SENTENCES)
    tokens, mask = torch.tensor([e.ids for e in encoded]), torch.tensor([e.attention_mask for e in encoded])

    torch.manual_seed(1)
    model = BertModel(BertConfig(vocab_size=len(vocabulary), hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=96,
                                 max_position_embeddings=20, layer_norm_eps=1e-12)).eval()
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.3 * torch.randn(value.shape))  # biases too, and attention that looks somewhere
        hidden = model(tokens, attention_mask=mask).last_hidden_state.double()
    seen = mask[..., None].double()
    y = (hidden * seen).sum(1) / seen.sum(1)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, FOLDER / "model.safetensors")
    save_file({"token": tokens.int(), "embedding": torch.nn.functional.normalize(y, dim=1).float()}, FOLDER / "answers.safetensors")


main()
