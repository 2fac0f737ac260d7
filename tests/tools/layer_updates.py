"""layer_updates: layers against the golden files of tests/golden/layer_updates.py: values, gradients and three updates, by the interpreter and by compiled
code on three replicas."""

import json
import os

from golden_cases import call
from programs import compile, execute, interpret, write
from safetensors import safe_open


def read(file):
    with safe_open(os.path.join(os.environ["DT_SOURCE"], "tests", "golden", f"{file}.safetensors"), "np") as file:
        return json.loads(file.metadata()["cases"]), {name: file.get_tensor(name) for name in file.keys()}


def program_of(case, number, tensors):
    """A model of that one layer with a step for its gradients and one for its updates. Results w0, w1, … are of its weights."""
    dims = lambda name: ", ".join(["B", *map(str, tensors[f"{case['name']}/{name}"].shape[1:])])
    weights = [f"M{number}.{case['call']}.{name.replace('/', '.')}" for name in case["weights"]]
    return f"""model M{number}(x: f32[{dims('input')}]) {{ return {call(case['call'], case['arguments'], ['x'])} }}
step gradients{number}(input: f32[{dims('input')}], cotangent: f32[{dims('cotangent')}]) {{
    output = M{number}(input)
    total  = sum(output * cotangent)
    return output: output, input: grad(total, input), {', '.join(f'w{i}: grad(total, {path})' for i, path in enumerate(weights))}
}}
step update{number}(input: f32[{dims('input')}], cotangent: f32[{dims('cotangent')}]) {{
    distance = M{number}(input) - cotangent
    minimize(sum(square(distance), axes: 1..distance.rank), sgd(learning_rate: 0.02))
    return {', '.join(f'w{i}: {path}' for i, path in enumerate(weights))}
}}
"""


def check(checks, case, number, tensors, how, runs, tolerance):
    """`runs`: of a step, what is given to it and its options, what it found."""
    of = lambda name: tensors[f"{case['name']}/{name}"]
    given = {"input/input": of("input"), "input/cotangent": of("cotangent")}
    given |= {f"variable/M{number}/{case['call']}/{name}": of(name) for name in case["weights"]}
    found = runs(f"gradients{number}", given)
    checks.near(f"{case['name']}, {how}: output", found["result/output"], of("output"), **tolerance)
    for result, name in {"input": "input", **{f"w{i}": name for i, name in enumerate(case["weights"])}}.items():
        wanted = of("gradient/" + name)
        checks.near(f"{case['name']}, {how}: gradient of {name}", found["result/" + result].reshape(wanted.shape), wanted, **tolerance)
    found = runs(f"update{number}", given, rows=3)
    for i, name in enumerate(case["weights"]):
        wanted = of("updated/" + name)
        checks.near(f"{case['name']}, {how}: updates of {name}", found[f"result/w{i}"].reshape(wanted.shape), wanted, **tolerance)


def compare(checks, file, uses, **tolerance):
    """All cases of FILE.safetensors, in one program that begins with `uses`."""
    cases, tensors = read(file)
    program = write(f"{uses}\n" + "".join(program_of(case, number, tensors) for number, case in enumerate(cases)))
    artifact = compile(program, batch=9)
    for number, case in enumerate(cases):
        check(checks, case, number, tensors, "interpreted", lambda step, given, **options: interpret(program, step, given, **options), tolerance)
        check(checks, case, number, tensors, "3 replicas", lambda step, given, **options: execute(artifact, step, given, replicas=3, **options), tolerance)
