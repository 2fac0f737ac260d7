"""golden_cases: each case of tests/golden/layers as a program and the numbers that it must give."""

import json
import os

import numpy as np
from safetensors.numpy import load_file

FOLDER = os.path.join(os.environ["DT_SOURCE"], "tests", "golden", "layers")


def literal(value):
    """A value of the index in the language; a string stands for a name, a dict for a call."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return call(value["call"], value["arguments"])
    return str(value)


def call(name, arguments, first=()):
    return f"{name}({', '.join([*first, *(f'{key}: {literal(value)}' for key, value in arguments.items())])})"


class Case:
    step = "run"
    relative, absolute = 2e-6, 2e-6

    def __init__(self, row):
        self.name = row["name"]
        self.row = row
        self.arguments = dict(row["arguments"])
        self.tensors = load_file(os.path.join(FOLDER, self.name + ".safetensors"))

    def type(self, name):
        """Of a tensor whose first dimension is the batch."""
        tensor = self.row["tensors"][name]
        return f"{tensor['dtype']}[{', '.join(['B', *map(str, tensor['shape'][1:])])}]"

    def program(self):
        return "use nn, losses, optimizers, schedules\n" + self.text()

    def options(self):
        return {}


class Layer(Case):
    """Value, new state, gradients by the input and by each parameter, of a model of that one layer."""

    def __init__(self, row):
        super().__init__(row)
        self.training = self.arguments.pop("training", None)
        self.parameters = [name[len("parameter/") :] for name in self.tensors if name.startswith("parameter/")]
        self.states = [name[len("state/") :] for name in self.tensors if name.startswith("state/")]

    def path(self, name):
        return f"Case/{self.row['call']}/{name}"

    def text(self):
        mode = f", training: {literal(self.training)}" if self.training is not None else ""
        lines = [
            f"model Case(x: {self.type('input')}) {{ return {call(self.row['call'], self.arguments, ['x'])} }}",
            f"step run(input: {self.type('input')}, cotangent: {self.type('cotangent')}) {{",
            f"    output = Case(input{mode})",
            "    total = sum(output * cotangent)",
            *(f"    gradient_{name} = 0" for name in self.parameters),
            "    for path, g in grad(total, params(Case)) {",
            *(f'        if path == "{self.path(name)}" {{ gradient_{name} = g }}' for name in self.parameters),
            "    }",
            f"    return output: output, {', '.join(['input: grad(total, input)', *(f'{name}: gradient_{name}' for name in self.parameters)])}",
            "}",
        ]
        if not self.parameters:
            lines = [line for line in lines if not line.startswith(("    for", "    }"))]
        return "\n".join(lines) + "\n"

    def given(self):
        given = {f"input/{name}": self.tensors[name] for name in ("input", "cotangent")}
        for name in self.parameters:
            given[f"variable/{self.path(name)}"] = self.tensors[f"parameter/{name}"]
        for name in self.states:
            given[f"variable/{self.path(name)}"] = self.tensors[f"state/{name}"]
        return given

    def expected(self):
        expected = {"result/output": self.tensors["output"], "result/input": self.tensors["gradient/input"]}
        for name in self.parameters:
            expected[f"result/{name}"] = self.tensors[f"gradient/{name}"][np.newaxis]
        for name in self.states:
            expected[f"variable/{self.path(name)}"] = self.tensors["new_state/" + name if self.training else "state/" + name]
        return expected


class Function(Case):
    def text(self):
        return f"""step run(input: {self.type('input')}, cotangent: {self.type('cotangent')}) {{
    output = {call(self.row['call'], self.arguments, ['input'])}
    return output: output, input: grad(sum(output * cotangent), input)
}}
"""

    def given(self):
        return {f"input/{name}": self.tensors[name] for name in ("input", "cotangent")}

    def expected(self):
        return {"result/output": self.tensors["output"], "result/input": self.tensors["gradient/input"]}


class Loss(Function):
    def text(self):
        return f"""step run(target: {self.type('target')}, input: {self.type('input')}, cotangent: {self.type('cotangent')}) {{
    output = {call(self.row['call'], self.arguments, ['target', 'input'])}
    return output: output, input: grad(sum(output * cotangent), input)
}}
"""

    def given(self):
        return {f"input/{name}": self.tensors[name] for name in ("target", "input", "cotangent")}


class Optimizer(Case):
    """A parameter whose gradient is the step's input; one row a step."""

    def text(self):
        shape = self.row["tensors"]["gradients"]["shape"][1:]
        return f"""model Case() {{
    param w: f32{shape} = zeros()
    return w
}}
step run(gradient: {self.type('gradients')}) {{
    apply({literal(self.row)}, grad(sum(Case() * gradient), params(Case)))
    return parameter: Case()
}}
"""

    def given(self):
        return {"input/gradient": self.tensors["gradients"], "variable/Case/w": self.tensors["parameters"][0]}

    def expected(self):
        return {"result/parameter": self.tensors["parameters"][1:]}

    def options(self):
        return {"rows": 1}


class Schedule(Case):
    """A parameter that becomes the rate, as an optimizer sees it, at each update."""

    def text(self):
        rate = self.arguments["initial"] if self.row["call"] == "constant" else literal(self.row)  # a number is the constant schedule
        return f"""optimizer probe(rate: schedule) {{
    update (p, g) {{ p := rate + 0 * g }}
}}
model Case() {{
    param p: f32 = zeros()
    return p
}}
step run(tick: f32[B]) {{
    apply(probe(rate: {rate}), grad(sum(Case() * tick), params(Case)))
    return rate: Case()
}}
"""

    def given(self):
        return {"input/tick": np.ones(len(self.tensors["output"]), np.float32)}

    def expected(self):
        return {"result/rate": self.tensors["output"]}

    def options(self):
        return {"rows": 1}


KINDS = {"layer": Layer, "function": Function, "loss": Loss, "optimizer": Optimizer, "schedule": Schedule}


def load():
    with open(os.path.join(FOLDER, "index.json")) as file:
        return [KINDS[row["kind"]](row) for row in json.load(file)["cases"]]
