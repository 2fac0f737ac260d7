"""meaning: what the language promises about training, in programs small enough to be worked out by hand.

Each program is run by the interpreter and by compiled code on one and on two replicas; all must give the numbers that are written here.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

checks = Checks()
x = np.array([1.0, 2.0, 4.0, 5.0], np.float32)  # mean 3, mean of squares 11.5

# One weight, which begins as 1.
SCALE = """
layer scale(x: f32[B]) {
    param w: f32 = ones()
    return w * x
}
model M(x: f32[B]) { return scale(x) }
"""
W = "variable/M/scale/w"


def case(name, text, expected, given=None, step="train", **options):
    given = given or {"input/x": x}
    source = write("use nn, losses, optimizers, schedules\n" + text)

    def run():
        artifact = compile(source, batch=4)
        runs = {"interpreter": interpret(source, step, given, **options)}
        for v in (1, 2):
            runs[f"V={v}"] = execute(artifact, step, given, replicas=v, **options)
        for how, found in runs.items():
            for key, value in expected.items():
                value = value if callable(value) else (lambda v, value=value: value)
                checks.near(f"{name}, {how}, {key}", found[key], np.array(value(2 if how == "V=2" else 1), ndmin=1), relative=2e-6)

    checks.fails(name, run)


def values_in_program_order():
    case(
        "a call after an update reads the new value",
        SCALE + "step train(x: f32[B]) { y = M(x)\n minimize(y, sgd(1.0))\n return before: y, after: M(x) }",
        {W: [-2], "result/before": x, "result/after": -2 * x},
    )
    case(
        "a gradient is taken at the values that its forward pass read",
        SCALE + "step train(x: f32[B]) { loss = square(M(x))\n minimize(loss, sgd(0.1))\n minimize(loss, sgd(0.1)) }",
        {W: [1 - 2 * 0.1 * 2 * 11.5]},
    )
    case(
        "a forward pass after an update has its own gradient",
        SCALE + "step train(x: f32[B]) { minimize(square(M(x)), sgd(0.1))\n minimize(square(M(x)), sgd(0.1)) }",
        {W: [(1 - 0.1 * 2 * 11.5) ** 2]},
    )


def optimizers():
    case(
        "a bound optimizer is one instance",
        SCALE + "step train(x: f32[B]) { o = sgd(0.1, momentum: 0.5)\n minimize(M(x), o)\n minimize(M(x), o) }",
        {W: [1 - 0.3 - (0.5 * 0.3 + 0.3)], "variable/sgd/count": [2], "variable/sgd/M/scale/w/velocity": [-0.45]},
    )
    case(
        "two expressions are two instances",
        SCALE + "step train(x: f32[B]) { minimize(M(x), sgd(0.1, momentum: 0.5))\n minimize(M(x), sgd(0.1, momentum: 0.5)) }",
        {W: [1 - 0.6], "variable/sgd/count": [1], "variable/sgd_1/count": [1], "variable/sgd_1/M/scale/w/velocity": [-0.3]},
    )
    case(
        "schedules read the count of updates",
        SCALE + "step train(x: f32[B]) { pace = cosine_decay(1.0, steps: 4)\n minimize(M(x), sgd(pace))\n report rate: last(pace) }",
        {"report/rate": [(1 + np.cos(np.pi * i / 4)) / 2 for i in range(4)], "variable/sgd/count": [4]},
        rows=1,
    )
    case(
        "launch values stand in arithmetic",
        SCALE + "step train(x: f32[B]) { rate = 0.1 * replicas * epochs * steps_per_epoch\n minimize(M(x), sgd(learning_rate: rate)) }",
        {W: lambda replicas: [1 - 0.1 * replicas * 5 * 3]},
        epochs=5,
    )


def what_is_trained():
    two = SCALE + "layer shift(x: f32[B]) { param b: f32 = zeros()\n return x + b }\nmodel N(x: f32[B]) { return scale(shift(M(x))) }\n"
    all_of_them = ["variable/M/scale/w", "variable/N/shift/b", "variable/N/scale/w"]
    case("over: one model", two + "step train(x: f32[B]) { minimize(N(x), sgd(1.0), over: params(N, only: true)) }", dict(zip(all_of_them, ([1], [-1], [-2]))))
    case("params include the models that are called", two + "step train(x: f32[B]) { minimize(N(x), sgd(1.0), over: params(N)) }", dict(zip(all_of_them, ([-2], [-1], [-2]))))
    case("freeze", two + "step train(x: f32[B]) { freeze(N.shift)\n minimize(N(x), sgd(1.0)) }", dict(zip(all_of_them, ([-2], [0], [-2]))))
    case("stop_gradient", two + "step train(x: f32[B]) { y = M(x)\n minimize(y + N(stop_gradient(y)), sgd(1.0), over: params(N)) }", {"variable/N/shift/b": [-1]})


def objectives():
    weighted = SCALE + "step train(x: f32[B], s: f32[B]) { minimize(M(x), sgd(1.0), weight: s, normalize: %s) }"
    given = {"input/x": x, "input/s": np.array([1, 0, 0, 3], np.float32)}
    for normalize, divisor in (("batch", 4), ("examples", 4), ("weights", 4)):
        case(f"normalize: {normalize}", weighted % normalize, {W: [1 - 16 / divisor]}, given)
    given["input/s"] = np.array([1, 0, 0, 1], np.float32)
    for normalize, divisor in (("batch", 4), ("examples", 4), ("weights", 2)):
        case(f"normalize: {normalize}, weights of 2", weighted % normalize, {W: [1 - 6 / divisor]}, given)
        case(f"normalize: {normalize}, weights of 0", weighted % normalize, {W: [1]}, given | {"input/s": np.zeros(4, np.float32)})
    case(
        "a weight of the loss's leading part",
        "model M(x: f32[B, 3]) { param w: f32[3] = ones()\n return w * x }\n"
        "step train(x: f32[B, 3], s: f32[B]) { minimize(M(x), sgd(1.0), weight: s) }",
        {"variable/M/w": [1 - (1 * 1 + 2 * 4) / 6, 1 - (1 * 2 + 2 * 5) / 6, 1 - (1 * 3 + 2 * 6) / 6]},
        {"input/x": np.arange(1, 7, dtype=np.float32).reshape(2, 3), "input/s": np.array([1, 2], np.float32)},
    )
    regular = SCALE.replace("return w", "regularize(0.5 * w * w)\n    return w")
    case("regularize counts once an instance", regular + "step train(x: f32[B]) { minimize(M(x) + M(x), sgd(1.0)) }", {W: [1 - (6 + 1)]})
    case(
        "regularize joins the minimize that trains its parameter",
        regular + "model N(x: f32[B]) { param v: f32 = ones()\n return v * M(x) }\nstep train(x: f32[B]) { minimize(N(x), sgd(1.0), over: params(N, only: true)) }",
        {W: [1], "variable/N/v": [-2]},
    )
    case("a gradient with respect to an input", "step s(x: f32[B]) { d = grad(sum(x * x), x)\n report loss: mean(d) }", {"report/loss": [6]}, step="s")
    by_hand = regular + "step train(x: f32[B]) { total = objective(%s)\n apply(sgd(1.0), grad(total, params(M)))\n return total: total }"
    case("regularize is in an objective as in minimize", by_hand % "M(x) + M(x)", {W: [1 - (6 + 1)], "result/total": [6 + 0.5]})
    case("and in one of the parameters that are named", by_hand % "M(x), over: params(M)", {W: [1 - (3 + 1)], "result/total": [3 + 0.5]})
    case("as models too", by_hand % "M(x), over: [M]", {W: [1 - (3 + 1)], "result/total": [3 + 0.5]})
    other = "model N(x: f32[B]) { param v: f32 = ones()\n return v * x }\n"
    case(
        "an objective of other parameters is without it",
        regular + other + "step train(x: f32[B]) { t = objective(M(x) + N(x), over: params(N))\n minimize(N(x), sgd(1.0), over: params(N))\n return t: t }",
        {"result/t": [6], "variable/N/v": [-2]},
    )
    nested = "model M(x: f32[B]) { y = scale(x)\n %s\n return y }\n"
    case(
        "regularize in a model whose layers have the parameters",
        SCALE.split("model")[0] + nested % "regularize(0.5 * square(sum(y)))" + "step train(x: f32[B]) { minimize(M(x), sgd(0.001)) }",
        {W: [1 - 0.001 * (3 + 144)]},
    )
    case(
        "regularize in a layer without parameters",
        "layer quiet(x: f32[B]) { regularize(0.5 * square(sum(x)))\n return x }\n"
        + SCALE.split("model")[0] + nested % "y = quiet(y)" + "step train(x: f32[B]) { minimize(M(x), sgd(0.001)) }",
        {W: [1 - 0.001 * (3 + 144)]},
    )
    case(
        "a gradient of a gradient",
        "model M(x: f32[B]) { param w: f32 = ones()\n return w * x * x * x }\n"
        "step train(x: f32[B]) { slope = grad(sum(M(x)), x)\n minimize(square(slope), sgd(0.001))\n return slope: slope }",
        {"variable/M/w": [1 - 0.001 * 18 * np.mean(x**4)], "result/slope": 3 * x**2},
    )


def states():
    counting = SCALE + "model C(x: f32[B]) { state seen: i64 = 7\n if training { seen := seen + count(x) }\n return M(x) }\n"
    case("state is written where training holds", counting + "step train(x: f32[B]) { minimize(C(x), sgd(1.0)) }", {"variable/C/seen": [11]})
    case("and not elsewhere", counting + "step evaluate(x: f32[B]) { report loss: mean(C(x)) }", {"variable/C/seen": [7], "report/loss": [3]}, step="evaluate")
    case(
        "training: false for one call",
        counting + "step train(x: f32[B]) { y = C(x, training: false)\n minimize(M(x), sgd(1.0))\n report loss: mean(y) }",
        {"variable/C/seen": [7], W: [-2]},
    )


def reports():
    case(
        "arithmetic around aggregators",
        "step train(x: f32[B]) { report a: 2 * mean(x) + log(sum(x)), b: max(x) - min(x), c: mean(x > 1.5), d: mean(x, weight: x), e: sum(x > 1.5) }",
        {"report/a": [6 + np.log(12)], "report/b": [4], "report/c": [0.75], "report/d": [46 / 12], "report/e": [3]},
    )


def names():
    case(
        "paths number layers by appearance, or take their names",
        "layer block(x: f32[B, C]) { return dense(dense(x, units: 2), units: 3) }\n"
        "model M(x: f32[B]) { y = x[..., newaxis]\n for i in 0..2 { y = block(y) }\n y = dense(y, units: 4)\n return dense(y, units: 1) as head }\n"
        "step train(x: f32[B]) { minimize(M(x), sgd(0.0)) }",
        {f"variable/M/{path}/bias": np.zeros(n) for path, n in (("block/dense", 2), ("block_1/dense_1", 3), ("dense", 4), ("head", 1))},
    )


for part in (values_in_program_order, optimizers, what_is_trained, objectives, states, reports, names):
    part()
checks.finish()
