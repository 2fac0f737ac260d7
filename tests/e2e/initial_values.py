"""initial_values: initialisers have the distribution that Keras gives them, are drawn by path and seed, and are the same in code and interpreter."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

PROGRAM = """
use nn
model M(x: f32[B]) {
    param by_glorot_uniform:  f32[3, 3, 20, 50]   = glorot_uniform()
    param by_glorot_normal:   f32[100, 200]       = glorot_normal()
    param by_he_uniform:      f32[100, 200]       = he_uniform()
    param by_he_normal:       f32[100, 200]       = he_normal()
    param by_uniform:         f32[20000]          = uniform(low: -2.0, high: 6.0)
    param by_normal:          f32[20000]          = normal(mean: 3.0, stddev: 2.0)
    param cut:                f32[20000]          = truncated_normal(mean: -1.0, stddev: 0.5)
    param again:              f32[20000]          = normal(mean: 3.0, stddev: 2.0)
    param by_zeros:           f32[5]              = zeros()
    param by_ones:            f32[5]              = ones()
    param by_constant:        f32[5]              = constant(value: 2.5)
    return x
}
step run(x: f32[B]) { return y: M(x) }
"""
CUT = 0.87962566103423978  # standard deviation of a normal distribution cut at two

checks = Checks()
source = write(PROGRAM)
artifact = compile(source)
given = {"input/x": np.zeros(1, np.float32)}
values = {seed: interpret(source, "run", given, seed=seed) for seed in (0, 1)}
of = {name[len("variable/M/") :]: array for name, array in values[0].items() if name.startswith("variable/")}


def distribution(name, mean, deviation, limit):
    """Within five standard errors; `limit` is what no element exceeds, and some come near."""
    a = of[name].astype(np.float64)
    checks.near(f"{name}, mean", a.mean(), mean, relative=0, absolute=5 * deviation / np.sqrt(a.size))
    checks.near(f"{name}, deviation", a.std(), deviation, relative=5 / np.sqrt(a.size))
    if limit:
        extent = np.abs(a - mean).max()
        checks.that(0.98 * limit < extent <= limit * (1 + 1e-6), f"{name}: elements up to {extent} from the mean, {limit} is the limit")


def uniform_within(name, limit, mean=0.0):
    distribution(name, mean, limit / np.sqrt(3), limit)


fan_in, fan_out = 9 * 20, 9 * 50
uniform_within("by_glorot_uniform", np.sqrt(6 / (fan_in + fan_out)))
uniform_within("by_he_uniform", np.sqrt(6 / 100))
uniform_within("by_uniform", 4, mean=2)
distribution("by_glorot_normal", 0, np.sqrt(2 / 300), 2 * np.sqrt(2 / 300) / CUT)
distribution("by_he_normal", 0, np.sqrt(2 / 100), 2 * np.sqrt(2 / 100) / CUT)
distribution("cut", -1, 0.5 * CUT, 1)
distribution("by_normal", 3, 2, None)
for name, value in (("by_zeros", 0), ("by_ones", 1), ("by_constant", 2.5)):
    checks.near(name, of[name], np.full(5, value), relative=0)

checks.that(abs(np.corrcoef(of["by_normal"], of["again"])[0, 1]) < 0.04, "two parameters are drawn from one stream")
within = np.corrcoef(of["by_normal"][1:], of["by_normal"][:-1])[0, 1]
checks.that(abs(within) < 0.04, f"neighbours are correlated by {within}")
for name in ("by_normal", "by_uniform", "by_glorot_uniform"):
    checks.that(not np.array_equal(of[name], values[1][f"variable/M/{name}"]), f"{name}: two seeds give the same")

for replicas, devices in ((1, "cpu:1"), (2, "cpu:2")):
    found = execute(artifact, "run", given, replicas=replicas, devices=devices)
    for name, array in of.items():
        checks.near(f"{name}, code, V={replicas}", found[f"variable/M/{name}"], array, relative=1e-5, absolute=1e-5)
checks.finish()
