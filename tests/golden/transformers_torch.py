"""transformers_torch: the models and training steps of tests/twins in PyTorch, from weights by the programs' paths.

In any floating-point type; `rate` of dropout 0 but in benchmarks. Kernels are [in, out] as in the programs.
"""

import math

import torch
from torch.nn import functional as F

EPSILON = 1e-3  # of layer normalisation, Keras's and the library's


def parameters(weights, dtype=torch.float32):
    return {path: torch.tensor(array, dtype=dtype, requires_grad="pooled_dense" not in path) for path, array in weights.items()}


def dense(p, path, x):
    return F.linear(x, p[f"{path}/kernel"].T, p[f"{path}/bias"])


def layer_norm(p, path, x, epsilon=EPSILON):
    return F.layer_norm(x, x.shape[-1:], p[f"{path}/gamma"], p[f"{path}/beta"], epsilon)


def heads_apart(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def suffix(i):
    return f"_{i}" if i else ""


def bert(p, token, layers, heads, rate=0.0):
    """The hidden states [B, T, C]."""
    mask = (token != 0)[:, None, None, :]
    x = p["Bert/table"][token] + p["Bert/position"][: token.shape[1]] + p["Bert/segment"][0]
    x = F.dropout(layer_norm(p, "Bert/layer_norm", x), rate)
    for i in range(layers):
        path = f"Bert/encoder{suffix(i)}"
        attention = f"{path}/multi_head_attention"
        q, k, v = (heads_apart(dense(p, f"{attention}/{name}", x), heads) for name in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate).transpose(1, 2).flatten(2)
        x = layer_norm(p, f"{path}/layer_norm", x + F.dropout(dense(p, f"{attention}/output", y), rate))
        y = dense(p, f"{path}/dense_1", F.gelu(dense(p, f"{path}/dense", x)))
        x = layer_norm(p, f"{path}/layer_norm_1", x + F.dropout(y, rate))
    return x


def masked_lm(p, token, position, layers, heads, rate=0.0, counted=None):
    """The logits [B, P, vocabulary], or where `counted` [B, P] says so, [n, vocabulary]."""
    x = bert(p, token, layers, heads, rate)
    y = x.gather(1, position[:, :, None].expand(-1, -1, x.shape[-1]))
    y = y if counted is None else y[counted]
    y = layer_norm(p, "MaskedLm/layer_norm", F.gelu(dense(p, "MaskedLm/dense", y)))
    return y @ p["Bert/table"].T + p["MaskedLm/bias"]


def bert_loss(p, batch, sizes, rate=0.0):
    """(what is minimised: the weighted sum over the number of predictions; what is reported: the weighted mean)"""
    logits = masked_lm(p, batch["masked"], batch["position"], sizes["layers"], sizes["heads"], rate)
    loss = F.cross_entropy(logits.flatten(0, 1), batch["label"].flatten(), reduction="none").view_as(batch["weight"])
    total = (loss * batch["weight"]).sum()
    return total / loss.numel(), total / batch["weight"].sum()


def gpt(p, token, layers, heads, rate=0.0):
    """The logits [B, T, 256]."""
    x = p["Gpt/table"][token] + p["Gpt/position"][: token.shape[1]]
    for i in range(layers):
        path = f"Gpt/block{suffix(i)}"
        q, k, v = (heads_apart(t, heads) for t in dense(p, f"{path}/attention/dense", layer_norm(p, f"{path}/layer_norm", x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + F.dropout(dense(p, f"{path}/attention/dense_1", y), rate)
        y = F.gelu(dense(p, f"{path}/dense", layer_norm(p, f"{path}/layer_norm_1", x)))
        x = x + F.dropout(dense(p, f"{path}/dense_1", y), rate)
    return layer_norm(p, "Gpt/layer_norm", x) @ p["Gpt/table"].T


def gpt_loss(p, batch, sizes, rate=0.0):
    token = batch["text"].long()
    loss = F.cross_entropy(gpt(p, token[:, :-1], sizes["layers"], sizes["heads"], rate).flatten(0, 1), token[:, 1:].flatten())
    return loss, loss


def polynomial_decay(initial, steps):
    return lambda count: initial * (1 - min(count / steps, 1.0))


def warmed_up_cosine(initial, floor, steps, warm_up):
    return lambda count: (floor + (initial - floor) * 0.5 * (1 + math.cos(math.pi * min(count / steps, 1.0)))) * min((count + 1) / warm_up, 1.0)


class AdamW:
    """Keras's: decoupled decay, epsilon added to the root of v as it is."""

    def __init__(self, trained, rate, decay, decays=lambda p: True, epsilon=1e-7):
        self.trained, self.rate, self.decay, self.decays, self.epsilon = trained, rate, decay, decays, epsilon
        self.slots = [(torch.zeros_like(p), torch.zeros_like(p)) for p in trained]
        self.count = 0

    def update(self, gradients):
        rate, t = self.rate(self.count), self.count + 1
        alpha = rate * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        with torch.no_grad():
            for p, g, (m, v) in zip(self.trained, gradients, self.slots):
                if self.decays(p):
                    p.sub_(rate * self.decay * p)
                m.add_((g - m) * (1 - 0.9))
                v.add_((g * g - v) * (1 - 0.999))
                p.sub_(alpha * m / (v.sqrt() + self.epsilon))
        self.count = t


def clip_by_global_norm(gradients, norm):
    length = torch.sqrt(sum((g * g).sum() for g in gradients))
    return [g * (norm / torch.clamp(length, min=norm)) for g in gradients]


class Training:
    """The training step of a twin, one replica: step(batch) updates and returns the reported loss."""

    def __init__(self, sizes, weights, steps, dtype=torch.float32, rate=0.0):
        self.sizes, self.rate, self.p = sizes, rate, parameters(weights, dtype)
        self.is_bert = sizes["program"] == "bert_mlm"
        self.trained = [p for p in self.p.values() if p.requires_grad]
        if self.is_bert:
            self.optimizer = AdamW(self.trained, polynomial_decay(1e-4, steps), 0.004)
        else:
            self.optimizer = AdamW(self.trained, warmed_up_cosine(3e-4, 3e-5, steps, 100), 0.1, decays=lambda p: p.dim() > 1)

    def loss(self, batch):
        return (bert_loss if self.is_bert else gpt_loss)(self.p, batch, self.sizes, self.rate)

    def step(self, batch):
        minimised, reported = self.loss(batch)
        gradients = torch.autograd.grad(minimised, self.trained)
        self.optimizer.update(gradients if self.is_bert else clip_by_global_norm(gradients, 1.0))
        return reported.item()
