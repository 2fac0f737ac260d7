"""library: makes library/, as layers.py beside it, of what the library has besides: a file for each group, so that one can be made alone.

    bench/peers/.venv/bin/python tests/golden/library.py [GROUP …]             a minute for all

A file holds the tensors of its cases as CASE/NAME; its metadata are `made_with`, and `cases`: what index.json of layers/ holds.
"""

import json
import os
import sys

import layers as made
import torch
from layers import distinct, function, jax, keras, layer, loss, normal, np, save_file, schedule, trajectory

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "library")
random = made.random


def pooling():
    """Lines and boxes; to sizes; borders."""
    layers = keras.layers
    line, box = distinct(2, 7, 3), distinct(2, 5, 4, 6, 2)
    for kind, keras_kind in (("max", "Max"), ("average", "Average")):
        of = lambda rank: getattr(layers, f"{keras_kind}Pooling{rank}D")
        adaptive = lambda rank: getattr(layers, f"Adaptive{keras_kind}Pooling{rank}D")
        whole = lambda rank: getattr(layers, f"Global{keras_kind}Pooling{rank}D")
        for padding in ("valid", "same"):
            layer(f"{kind}_pool1d_{padding}", f"{kind}_pool1d", line, of(1), size=3, stride=2, padding=padding)
            layer(f"{kind}_pool3d_{padding}", f"{kind}_pool3d", box, of(3), size=[2, 3, 2], stride=[2, 1, 2], padding=padding)
        layer(f"{kind}_pool1d_stride", f"{kind}_pool1d", line, of(1), size=2)
        layer(f"{kind}_pool3d_stride", f"{kind}_pool3d", box, of(3), size=2)
        for rank, x in ((1, line), (2, distinct(2, 5, 4, 3)), (3, box)):
            layer(f"global_{kind}_pool{rank}d", f"global_{kind}_pool{rank}d", x, whole(rank))
            layer(f"global_{kind}_pool{rank}d_keep", f"global_{kind}_pool{rank}d", x, whole(rank), keep=True)
            size = [3, 2, 4][:rank] if rank > 1 else 3
            layer(f"adaptive_{kind}_pool{rank}d", f"adaptive_{kind}_pool{rank}d", x, adaptive(rank), names={"size": "output_size"}, size=size)
    image, same = normal(2, 3, 4, 2), {}
    layer("zero_padding1d", "zero_padding1d", line, layers.ZeroPadding1D, names=same, padding=[1, 2])
    layer("zero_padding2d", "zero_padding2d", image, layers.ZeroPadding2D, names=same, padding=[[1, 0], [2, 1]])
    layer("zero_padding3d", "zero_padding3d", box, layers.ZeroPadding3D, names=same, padding=1)
    layer("cropping1d", "cropping1d", line, layers.Cropping1D, names=same, cropping=[1, 2])
    layer("cropping2d", "cropping2d", image, layers.Cropping2D, names=same, cropping=[[1, 0], [2, 1]])
    layer("cropping3d", "cropping3d", box, layers.Cropping3D, names=same)
    layer("up_sampling1d", "up_sampling1d", line, layers.UpSampling1D, names=same, size=3)
    layer("up_sampling2d", "up_sampling2d", image, layers.UpSampling2D, names=same, size=[2, 3])
    layer("up_sampling3d", "up_sampling3d", normal(1, 2, 2, 3, 2), layers.UpSampling3D, names=same)
    layer("repeat_vector", "repeat_vector", normal(3, 4), layers.RepeatVector, names=same, n=3)


def normalisation():
    layers = keras.layers
    group, rms = layers.GroupNormalization, layers.RMSNormalization
    layer("group_norm", "group_norm", normal(2, 3, 4, 6) + 0.5, group, groups=3)
    layer("group_norm_default", "group_norm", normal(3, 2, 64) + 0.5, group)
    layer("group_norm_of_channels", "group_norm", normal(2, 5, 4), group, groups=-1, epsilon=1e-5, center=False)
    layer("group_norm_vectors", "group_norm", normal(4, 6), group, groups=2, scale=False)
    layer("instance_norm", "instance_norm", normal(2, 3, 4, 5) + 0.5, lambda **arguments: group(groups=-1, **arguments))
    layer("rms_norm", "rms_norm", normal(4, 6) + 0.5, rms)
    layer("rms_norm_epsilon", "rms_norm", normal(2, 3, 5, scale=0.1), rms, epsilon=1e-2)
    layer("unit_norm", "unit_norm", normal(2, 3, 5), layers.UnitNormalization)
    layer("unit_norm_axis", "unit_norm", normal(2, 3, 5), layers.UnitNormalization, axis=1)
    token = random.randint(0, 7, (3, 4)).astype(np.int32)
    layer("embedding", "embedding", token, layers.Embedding, rows=7, width=5)
    layer("prelu", "prelu", normal(3, 2, 4), layers.PReLU)


def activations():
    a = keras.activations
    wide = np.concatenate([normal(3, 6), normal(2, 6, scale=4.0)])
    for call in ("celu", "elu", "glu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_tanh", "log_sigmoid", "log_softmax", "mish", "relu6", "selu", "silu"):
        function(call, call, getattr(a, call), wide)
    for call in ("soft_shrink", "softplus", "softsign", "sparse_plus", "sparse_sigmoid", "squareplus", "tanh_shrink"):
        function(call, call, getattr(a, call), wide)
    function("celu_alpha", "celu", lambda x: a.celu(x, alpha=0.4), wide, alpha=0.4)
    function("elu_alpha", "elu", lambda x: a.elu(x, alpha=0.4), wide, alpha=0.4)
    function("glu_axis", "glu", lambda x: a.glu(x, axis=1), normal(2, 4, 3), axis=1)
    function("threshold", "threshold", lambda x: a.threshold(x, 0.3, -1.0), wide, threshold=0.3, default_value=-1.0)


def losses():
    """Of classes from logits, as the library takes them; of each example where Keras would take the whole batch."""
    k = keras.losses
    logits, label = normal(6, 5, scale=2.0), random.randint(0, 5, 6).astype(np.int32)
    hot = np.eye(5)[label]
    binary = random.randint(0, 2, (6, 4)).astype(np.float64)
    scores = normal(6, 4, scale=2.0)
    near = lambda *shape: np.abs(normal(*shape)) + 0.1
    probabilities = lambda *shape: (lambda p: (p / p.sum(-1, keepdims=True)).astype(np.float32).astype(np.float64))(near(*shape))
    share = lambda *shape: random.uniform(0.05, 0.95, shape).astype(np.float32).astype(np.float64)

    from_logits = {"from_logits": True}
    smooth = {"label_smoothing": 0.1}
    loss("categorical_crossentropy", "categorical_crossentropy", lambda y, x: k.categorical_crossentropy(y, x, **from_logits), hot, logits)
    name = "categorical_crossentropy_label_smoothing"
    loss(name, "categorical_crossentropy", lambda y, x: k.categorical_crossentropy(y, x, **from_logits, **smooth), hot, logits, **smooth)
    name = "sparse_categorical_crossentropy_ignore_class"
    ignore = {"ignore_class": 2}
    ignored = np.array([2, 0, 1, 2, 4, 3], np.int32)
    loss(name, "sparse_categorical_crossentropy", lambda y, x: k.sparse_categorical_crossentropy(y, x, **from_logits, **ignore), ignored, logits, **ignore)
    call = "categorical_focal_crossentropy"
    loss(call, call, lambda y, x: k.categorical_focal_crossentropy(y, x, **from_logits), hot, logits)
    arguments = {"alpha": 0.4, "gamma": 1.5, "label_smoothing": 0.1}
    loss(call + "_arguments", call, lambda y, x: k.categorical_focal_crossentropy(y, x, **from_logits, **arguments), hot, logits, **arguments)
    call = "categorical_generalized_cross_entropy"
    loss(call, call, lambda y, x: k.categorical_generalized_cross_entropy(y, jax.nn.softmax(x), 0.7), label, logits, q=0.7)
    loss("binary_crossentropy", "binary_crossentropy", lambda y, x: k.binary_crossentropy(y, x, **from_logits), binary, scores)
    name = "binary_crossentropy_label_smoothing"
    loss(name, "binary_crossentropy", lambda y, x: k.binary_crossentropy(y, x, **from_logits, **smooth), binary, scores, **smooth)
    call = "binary_focal_crossentropy"
    loss(call, call, lambda y, x: k.binary_focal_crossentropy(y, x, **from_logits), binary, scores)
    arguments = {"apply_class_balancing": True, "alpha": 0.4, "gamma": 1.5, "label_smoothing": 0.1}
    loss(call + "_arguments", call, lambda y, x: k.binary_focal_crossentropy(y, x, **from_logits, **arguments), binary, scores, **arguments)
    for call in ("hinge", "squared_hinge"):
        loss(call, call, getattr(k, call), binary * 2 - 1, scores)
        loss(call + "_of_0_and_1", call, getattr(k, call), binary, scores)
    loss("categorical_hinge", "categorical_hinge", k.categorical_hinge, hot, logits)
    for call in ("mean_absolute_error", "mean_absolute_percentage_error", "huber", "log_cosh", "cosine_similarity"):
        loss(call, call, getattr(k, call), normal(6, 5), normal(6, 5))
    loss("huber_delta", "huber", lambda y, x: k.huber(y, x, delta=0.4), normal(6, 5), normal(6, 5), delta=0.4)
    loss("cosine_similarity_axis", "cosine_similarity", lambda y, x: k.cosine_similarity(y, x, axis=1), normal(2, 3, 4), normal(2, 3, 4), axis=1)
    for call in ("mean_squared_logarithmic_error", "poisson"):
        loss(call, call, getattr(k, call), near(6, 5), near(6, 5))
    loss("kl_divergence", "kl_divergence", k.kl_divergence, probabilities(6, 5), probabilities(6, 5))
    loss("dice", "dice", lambda y, x: k.dice(y, x, axis=(1, 2)), share(3, 4, 2), share(3, 4, 2))
    loss("tversky", "tversky", lambda y, x: k.tversky(y, x, axis=(1,)), share(3, 4), share(3, 4))
    arguments = {"alpha": 0.3, "beta": 0.7}
    loss("tversky_arguments", "tversky", lambda y, x: k.tversky(y, x, axis=(1,), **arguments), share(3, 4), share(3, 4), **arguments)


def of_several(name, call, f, x, others, named=None, **arguments):
    """A function of an input and of others: numbers, by which there are gradients too, or whole numbers. named: the parameter of the first one."""
    x_and_numbers = [x] + [other for other in others.values() if other.dtype == np.float64]
    def both(x, *numbers):
        rest = iter(numbers)
        return f(x, *(next(rest) if other.dtype == np.float64 else other for other in others.values()))

    output, pullback = jax.vjp(both, *x_and_numbers)
    cotangent = normal(*output.shape)
    of_x, *of_numbers = pullback(jax.numpy.asarray(cotangent))
    tensors = {"input": x, "output": output, "cotangent": cotangent, "gradient/input": of_x}
    tensors |= {f"argument/{key}": other for key, other in others.items()}
    tensors |= {f"gradient/argument/{key}": g for key, g in zip([key for key, other in others.items() if other.dtype == np.float64], of_numbers)}
    updated, rate = made.trained(lambda _, x: f(x, *others.values()), [], [], x, cotangent)
    made.keep(name, "layer", call, arguments, tensors | updated, rate=rate, **({"named": named} if named else {}))


def rotated(x):
    """Rotary positions by KerasHub, of heads: [B, N, T, D]."""
    import keras_hub

    return keras_hub.layers.RotaryEmbedding(sequence_axis=2)(x)


def attention():
    """Keras's layers, whose kernels [C, heads, D] are [C, heads * D] here; rotary positions by KerasHub between its dense layers and its attention."""
    ops = keras.ops

    def case(name, heads=2, size=2, groups=None, context=None, mask=None, causal=False, rotary=False, use_bias=True, x=None):
        x = normal(2, 4, 6) if x is None else x
        arguments = {"heads": heads, "key_dim": size, "key_value_heads": groups, "causal": causal, "rotary": rotary, "use_bias": use_bias}
        standard = {"key_dim": x.shape[-1] // heads, "key_value_heads": None, "causal": False, "rotary": False, "use_bias": True}
        n, source = groups or heads, x if context is None else context
        if groups:
            module = keras.layers.GroupQueryAttention(size, heads, groups, use_bias=use_bias)
        else:
            module = keras.layers.MultiHeadAttention(heads, size, use_bias=use_bias)
        module.build(x.shape, source.shape)
        for v in module.weights:
            v.assign(normal(*v.shape, scale=0.5))
        parameters = [v.value for v in module.trainable_variables]

        def forward(parameters, x, context):
            context = x if context is None else context
            if rotary:
                assert use_bias and mask is None and context is x
                (wq, bq, wk, bk, wv, bv, wo, bo) = parameters
                project = lambda w, b: ops.einsum("btc,cnd->bntd", x, w) + b[:, None]
                q, k, v = rotated(project(wq, bq)), rotated(project(wk, bk)), project(wv, bv)
                q, k, v = (ops.transpose(ops.repeat(t, heads // t.shape[1], axis=1), (0, 2, 1, 3)) for t in (q, k, v))
                y = ops.dot_product_attention(q, k, v, is_causal=causal)
                return ops.einsum("btnd,ndc->btc", y, wo) + bo
            seen = None if mask is None else np.broadcast_to((mask if mask.ndim == 3 else mask[:, None, :]) > 0, (2, x.shape[1], context.shape[1]))
            return module.stateless_call(parameters, [], x, context, attention_mask=seen, use_causal_mask=causal)[0]

        output, pullback = jax.vjp(forward, parameters, x, context)
        cotangent = normal(*output.shape)
        of_parameters, of_input, of_context = pullback(jax.numpy.asarray(cotangent))
        tensors = {"input": x, "output": output, "cotangent": cotangent, "gradient/input": of_input}
        after = made.descent(lambda weights: jax.numpy.mean((forward(weights, x, context) - cotangent) ** 2), parameters, made.RATE)
        for v, value, gradient, updated in zip(module.trainable_variables, parameters, of_parameters, after):
            part, kind = v.path.split("/")[-2:]
            part = {"attention_output": "output"}.get(part, part)
            shape = (-1, x.shape[-1]) if (part, kind) == ("output", "kernel") else (v.shape[0], -1) if kind == "kernel" else (-1,)
            for place, t in (("parameter", value), ("gradient", gradient)):
                tensors[f"{place}/{part}/{kind}"] = np.asarray(t).reshape(shape)
            tensors[f"updated/{part}/{kind}"] = updated.reshape(made.UPDATES, *shape)
        if context is not None:
            tensors |= {"argument/context": context, "gradient/argument/context": of_context}
        if mask is not None:
            tensors["argument/mask"] = mask
        made.keep(name, "layer", "multi_head_attention", {key: v for key, v in arguments.items() if v != standard.get(key, 0)}, tensors, rate=made.RATE)

    seen = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
    case("attention", size=3)
    case("attention_key_dim", size=5, use_bias=False)
    case("attention_causal", causal=True)
    case("attention_cross", context=normal(2, 3, 5))
    case("attention_cross_masked", context=normal(2, 3, 5), mask=seen)
    case("attention_mask_of_pairs", mask=np.tril(np.ones((2, 4, 4), np.int32)) | (random.randint(0, 2, (2, 4, 4))).astype(np.int32))
    case("attention_grouped", heads=4, groups=2, size=3)
    case("attention_grouped_causal_cross", heads=4, groups=1, size=2, causal=True, context=normal(2, 4, 3))
    case("attention_rotary", size=4, rotary=True)
    case("attention_rotary_grouped_causal", heads=4, groups=2, size=2, rotary=True, causal=True, x=normal(2, 5, 4))
    function("rotary_embedding", "rotary_embedding", rotated, normal(2, 3, 5, 4))

    def products(name, positions, **arguments):
        """Of heads, [B, N, T, D]; Keras has them as [B, T, N, D]."""
        query, key, value = normal(2, 2, 4, 3), normal(2, 2, positions, 3), normal(2, 2, positions, 3)
        turned = lambda x: ops.transpose(x, (0, 2, 1, 3))
        f = lambda *x: turned(ops.dot_product_attention(*map(turned, x), is_causal=arguments.get("causal", False)))
        of_several(name, "scaled_dot_product_attention", f, query, {"key": key, "value": value}, **arguments)

    products("dot_products", 5)
    products("dot_products_causal", 4, causal=True)


def optimizers():
    o = keras.optimizers
    rate = {"learning_rate": 0.1}
    for call, kind in (("nadam", o.Nadam), ("rmsprop", o.RMSprop), ("adagrad", o.Adagrad), ("adadelta", o.Adadelta), ("adamax", o.Adamax)):
        trajectory(call, call, kind())
        trajectory(call + "_rate", call, kind(**rate, weight_decay=0.02), **rate, weight_decay=0.02)
    for call, kind in (("adafactor", o.Adafactor), ("ftrl", o.Ftrl), ("lion", o.Lion), ("lamb", o.Lamb), ("muon", o.Muon)):
        trajectory(call, call, kind())
        trajectory(call + "_rate", call, kind(**rate, weight_decay=0.02), **rate, weight_decay=0.02)
        trajectory(call + "_vector", call, kind(**rate), shape=(5,), **rate)
    betas = {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}
    for call, kind in (("nadam", o.Nadam), ("adamax", o.Adamax), ("lamb", o.Lamb)):
        trajectory(call + "_arguments", call, kind(**rate, **betas), **rate, **betas)
    for call, kind, arguments in (
        ("adam", o.Adam, {"amsgrad": True, "beta_2": 0.5}),
        ("adam", o.Adam, {"weight_decay": 0.02}),
        ("rmsprop", o.RMSprop, {"rho": 0.7, "momentum": 0.5, "centered": True, "epsilon": 1e-3}),
        ("rmsprop", o.RMSprop, {"momentum": 0.9}),
        ("adagrad", o.Adagrad, {"initial_accumulator_value": 0.5, "epsilon": 1e-3}),
        ("adadelta", o.Adadelta, {"rho": 0.7, "epsilon": 1e-3}),
        ("adafactor", o.Adafactor, {"beta_2_decay": -0.5, "epsilon_2": 1e-2, "clip_threshold": 0.7}),
        ("lion", o.Lion, {"beta_1": 0.5, "beta_2": 0.7}),
        ("muon", o.Muon, {"momentum": 0.8, "nesterov": False, "ns_steps": 3, "rms_rate": 0.3}),
    ):
        trajectory(f"{call}_{'_'.join(arguments)}", call, kind(**rate, **arguments), **rate, **arguments)
    every = {"l1_regularization_strength": 0.1, "l2_regularization_strength": 0.2, "l2_shrinkage_regularization_strength": 0.05, "beta": 0.3}
    every |= {"learning_rate_power": -0.4, "initial_accumulator_value": 0.2}
    trajectory("ftrl_arguments", "ftrl", o.Ftrl(**rate, **every), **rate, **every)
    trajectory("adafactor_rank_3", "adafactor", o.Adafactor(**rate), shape=(2, 3, 4), **rate)
    trajectory("muon_tall", "muon", o.Muon(**rate), shape=(6, 2), **rate)
    for clip, name, keras_name in (("value", "value", "clipvalue"), ("norm", "norm", "clipnorm"), ("global_norm", "norm", "global_clipnorm")):
        clipping = {"call": f"clip_by_{clip}", "arguments": {name: 0.9}}
        trajectory(f"clip_by_{clip}", "sgd", o.SGD(**rate, **{keras_name: 0.9}), clip=clipping, **rate)
    largest = {"amsgrad": True, "beta_2": 0.5, "weight_decay": 0.02}
    trajectory("adamw_amsgrad", "adamw", o.AdamW(**rate, **largest), **rate, **largest)


def averages():
    """PyTorch's averages of weights: gradients are what the weights were, parameters what the average was."""
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    for name, call, arguments, function in (
        ("moving_average", "moving_average", {}, get_ema_multi_avg_fn(0.99)),
        ("moving_average_momentum", "moving_average", {"momentum": 0.6}, get_ema_multi_avg_fn(0.6)),
        ("equal_average", "equal_average", {}, None),
    ):
        model = torch.nn.Linear(4, 3, bias=False).double()
        average = AveragedModel(model, multi_avg_fn=function)
        weights, averages = normal(5, 3, 4), [normal(3, 4)]
        for w in weights:
            model.weight.data = torch.tensor(w)
            average.update_parameters(model)
            averages.append(average.module.weight.detach().numpy().copy())
        made.keep(name, "optimizer", call, arguments, {"gradients": weights, "parameters": np.stack(averages)})


def of_torch(make):
    """A schedule of PyTorch's for an optimizer of rate 0.1, as a function of the updates made."""
    rates = []
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    scheduler = make(optimizer)
    for _ in range(30):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(rates) < getattr(scheduler, "total_steps", 1000):
            scheduler.step()
    return lambda i: rates[i]


def schedules():
    s, t = keras.optimizers.schedules, torch.optim.lr_scheduler
    of = lambda call, **arguments: {"call": call, "arguments": arguments}
    for staircase in (False, True):
        for call, kind in (("exponential_decay", s.ExponentialDecay), ("inverse_time_decay", s.InverseTimeDecay)):
            name = call + ("_staircase" if staircase else "")
            schedule(name, call, kind(0.1, 5, 0.7, staircase=staircase), 13, initial=0.1, steps=5, rate=0.7, staircase=staircase)
    schedule("polynomial_decay", "polynomial_decay", s.PolynomialDecay(0.1, 6, 0.01, power=2.0), 9, initial=0.1, end=0.01, steps=6, power=2.0)
    schedule("polynomial_decay_cycle", "polynomial_decay", s.PolynomialDecay(0.1, 4, 0.01, cycle=True), 13, initial=0.1, end=0.01, steps=4, cycle=True)
    pieces = {"boundaries": [3, 6], "values": [0.3, 0.2, 0.1]}
    schedule("piecewise_constant", "piecewise_constant", s.PiecewiseConstantDecay(**pieces), 9, **pieces)
    restarts = lambda **arguments: s.CosineDecayRestarts(0.1, 4, **arguments)
    schedule("cosine_decay_restarts", "cosine_decay_restarts", restarts(), 29, initial=0.1, first_steps=4)
    multiples = {"t_mul": 1.5, "m_mul": 0.8}
    name = "cosine_decay_restarts_arguments"
    schedule(name, "cosine_decay_restarts", restarts(alpha=0.1, **multiples), 25, initial=0.1, first_steps=4, floor=0.01, **multiples)
    schedule("cosine_decay_restarts_even", "cosine_decay_restarts", restarts(t_mul=1.0, m_mul=0.5), 13, initial=0.1, first_steps=4, t_mul=1.0, m_mul=0.5)
    warm = {"schedules": [of("linear", initial=0.02, end=0.1, steps=4), of("cosine_decay", initial=0.1, steps=6)], "boundaries": [4]}
    schedule("chain_warmup", "chain", s.CosineDecay(0.02, 6, warmup_target=0.1, warmup_steps=4), 13, **warm)
    schedule("linear", "linear", of_torch(lambda o: t.LinearLR(o, 0.3, 0.9, total_iters=6)), 9, initial=0.03, end=0.09, steps=6)
    schedule("step_decay", "step_decay", of_torch(lambda o: t.StepLR(o, 3, gamma=0.5)), 10, initial=0.1, steps=3, factor=0.5)
    schedule("multi_step_decay", "multi_step_decay", of_torch(lambda o: t.MultiStepLR(o, [2, 7])), 10, initial=0.1, milestones=[2, 7])
    schedule("cyclic", "cyclic", of_torch(lambda o: t.CyclicLR(o, 0.01, 0.1, step_size_up=4, cycle_momentum=False)), 18, low=0.01, high=0.1, steps=4)
    schedule("one_cycle", "one_cycle", of_torch(lambda o: t.OneCycleLR(o, 0.1, total_steps=20)), 20, most=0.1, steps=20)
    parts = {"schedules": [0.01, of("exponential_decay", initial=0.1, steps=1, rate=0.8)], "boundaries": [3]}
    sequence = lambda o: t.SequentialLR(o, [t.ConstantLR(o, 0.1, total_iters=9), t.ExponentialLR(o, 0.8)], [3])
    schedule("chain", "chain", of_torch(sequence), 9, **parts)
    factors = [of("linear", initial=0.5, end=1.0, steps=4), of("exponential_decay", initial=0.1, steps=1, rate=0.8)]
    both = lambda o: t.ChainedScheduler([t.LinearLR(o, 0.5, total_iters=4), t.ExponentialLR(o, 0.8)])
    schedule("multiplied", "multiplied", of_torch(both), 9, schedules=factors)


def images():
    """Keras resizes on JAX; pixels out of channels and back by its operations."""
    ops = keras.ops
    image = normal(2, 5, 6, 2)
    for method in ("nearest", "bilinear"):
        for size in ([9, 4], [10, 18], [3, 3], [5, 7]):
            to = lambda x: ops.image.resize(x, size, interpolation=method)
            function(f"resize_{method}_{size[0]}_{size[1]}", "resize", to, image, size=size, method=method)
    same = {"method": "interpolation"}
    layer("up_sampling2d_bilinear", "up_sampling2d", image, keras.layers.UpSampling2D, names=same, size=[2, 3], method="bilinear")
    for size in (2, 3):
        function(f"depth_to_space_{size}", "depth_to_space", lambda x: ops.depth_to_space(x, size), normal(2, 2, 3, 2 * size * size), size=size)
        function(f"space_to_depth_{size}", "space_to_depth", lambda x: ops.space_to_depth(x, size), normal(2, 2 * size, 3 * size, 2), size=size)


def running():
    """Products and sums of exponentials so far, by JAX; a 0 and an equal pair among them."""
    x = normal(3, 4, 7, scale=0.5)
    x[0, 0, 2] = x[1, 2, 3] = x[1, 2, 5] = 0
    x[2, 1, 1] = x[2, 1, 2]
    for call, of_jax in (("cumprod", jax.lax.cumprod), ("cumlogsumexp", jax.lax.cumlogsumexp)):
        function(call, call, lambda x: of_jax(x, axis=2), x)
        function(f"{call}_reverse", call, lambda x: of_jax(x, axis=1, reverse=True), x, axis=1, reverse=True)
    function("logsumexp", "logsumexp", lambda x: jax.nn.logsumexp(x, axis=1), 60 * x, axis=1)
    of_several("logaddexp", "logaddexp", jax.numpy.logaddexp, 40 * x, {"y": 20 * normal(3, 4, 7)})


def segments():
    """Of rows of their own, by JAX over each; no edge leads to node 3."""
    segment = np.array([[0, 2, 2, 0, 4, 2], [1, 1, 1, 1, 1, 4], [4, 0, 1, 2, 1, 0]], np.int32)
    of = lambda f: jax.vmap(lambda x, i: f(x, i, num_segments=5))
    for name, x in (("", distinct(3, 6, 2)), ("_vector", distinct(3, 6))):
        of_several(f"segment_sum{name}", "segment_sum", of(jax.ops.segment_sum), x, {"segment": segment}, n=5)
        most = lambda x, i: jax.numpy.maximum(of(jax.ops.segment_max)(x, i), -9)
        of_several(f"segment_max{name}", "segment_max", most, x, {"segment": segment}, n=5, empty=-9.0)

        def softmax(x, segment):
            e = jax.numpy.exp(x)
            return e / jax.vmap(lambda t, i: t[i])(of(jax.ops.segment_sum)(e, segment), segment)

        of_several(f"segment_softmax{name}", "segment_softmax", softmax, 20 * x, {"segment": segment}, n=5)


def alignments():
    """Keras's loss of sequences, and PyTorch's, which has to say the same."""

    def case(name, label, label_length, logit_length, blank=0, classes=5, positions=7, lengths=True):
        x = normal(len(label), positions, classes)
        f = lambda x, label, *lengths: keras.ops.ctc_loss(label, x, label_length, logit_length, mask_index=blank)
        of_torch = torch.nn.functional.ctc_loss(
            torch.tensor(x).log_softmax(-1).transpose(0, 1), *map(torch.tensor, (label, logit_length, label_length)), blank=blank, reduction="none"
        )
        assert np.allclose(f(x, label), of_torch.numpy(), rtol=1e-9), name
        others = {"label": label} | ({"label_length": label_length, "logit_length": logit_length} if lengths else {})
        of_several(name, "ctc_loss", f, x, others, named="logits", **({"blank": blank} if blank else {}))

    lengths = lambda *n: np.array(n, np.int32)
    case("ctc", np.array([[1, 2, 3], [2, 2, 4], [4, 1, 4]], np.int32), lengths(3, 3, 3), lengths(7, 7, 7), lengths=False)
    label = np.array([[1, 1, 1], [3, 0, 0], [0, 0, 0], [2, 4, 0]], np.int32)
    case("ctc_lengths", label, lengths(3, 1, 0, 2), lengths(5, 7, 4, 2))
    case("ctc_blank", np.array([[1, 1, 2], [3, 0, 3]], np.int32), lengths(3, 2), lengths(6, 7), blank=4)


MADE = (pooling, normalisation, activations, losses, attention, optimizers, averages, schedules, images, running, segments, alignments)
GROUPS = {make.__name__: make for make in MADE}


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name in sys.argv[1:] or GROUPS:
        made.cases.clear()
        random.seed(sum(name.encode()))
        GROUPS[name]()
        tensors = {f"{row['name']}/{path}": t for row, tensors in made.cases for path, t in tensors.items()}
        metadata = {"made_with": json.dumps(made.made_with()), "cases": json.dumps([row for row, _ in made.cases])}
        path = os.path.join(FOLDER, name + ".safetensors")
        save_file(tensors, path, metadata)
        print(f"{name}: {len(made.cases)} cases, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
