"""golden_cases: each case of tests/golden/layers and tests/golden/library as a step of a program, and the numbers that it must give."""

import json
import os

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file

GOLDEN = os.path.join(os.environ["DT_SOURCE"], "tests", "golden")


def literal(value):
    """A value of the index in the language; a string stands for a name, a dict for a call."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return call(value["call"], value["arguments"])
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return str(value)


def call(name, arguments, first=()):
    return f"{name}({', '.join([*first, *(f'{key}: {literal(value)}' for key, value in arguments.items())])})"


class Case:
    relative, absolute = 2e-6, 2e-6

    def __init__(self, row, tensors, number):
        self.name = row["name"]
        self.row = row
        self.arguments = dict(row["arguments"])
        self.tensors = tensors
        self.model, self.step = f"Case{number}", f"run{number}"

    def type(self, name):
        """Of a tensor whose first dimension is the batch."""
        tensor = self.row["tensors"][name]
        return f"{tensor['dtype']}[{', '.join(['B', *map(str, tensor['shape'][1:])])}]"

    def options(self):
        return {}


class Layer(Case):
    """Value, new state, gradients by the input and by each parameter, of a model of that one layer."""

    def __init__(self, *row):
        super().__init__(*row)
        self.training = self.arguments.pop("training", None)
        self.inputs = [name[len("argument/") :] for name in self.tensors if name.startswith("argument/")]
        self.parameters = [name[len("parameter/") :] for name in self.tensors if name.startswith("parameter/")]
        self.states = [name[len("state/") :] for name in self.tensors if name.startswith("state/")]

    def path(self, name):
        return f"{self.model}/{self.row['call']}/{name}"

    def text(self):
        mode = f", training: {literal(self.training)}" if self.training is not None else ""
        more = "".join(f", {name}: {self.type('argument/' + name)}" for name in self.inputs)
        given = self.arguments | {name: name + (" > 0" if self.tensors["argument/" + name].dtype == np.int32 else "") for name in self.inputs}
        gradients = {name: f"grad(total, {name})" for name in ("input", *self.inputs) if self.gradient(name) in self.tensors}
        gradients |= {name.replace("/", "_"): f"gradient_{name.replace('/', '_')}" for name in self.parameters}
        lines = [
            f"model {self.model}(x: {self.type('input')}{more}) {{ return {call(self.row['call'], given, ['x'])} }}",
            f"step {self.step}(input: {self.type('input')}{more}, cotangent: {self.type('cotangent')}) {{",
            f"    output = {self.model}({', '.join(['input', *self.inputs])}{mode})",
            "    total = sum(output * cotangent)",
        ]
        if self.parameters:
            lines += [f"    gradient_{name.replace('/', '_')} = 0" for name in self.parameters]
            lines += [f"    for path, g in grad(total, params({self.model})) {{"]
            lines += [f'        if path == "{self.path(name)}" {{ gradient_{name.replace("/", "_")} = g }}' for name in self.parameters]
            lines += ["    }"]
        return "\n".join([*lines, f"    return {', '.join(['output: output', *(f'{name}: {value}' for name, value in gradients.items())])}", "}"]) + "\n"

    def gradient(self, name):
        return "gradient/input" if name == "input" else f"gradient/argument/{name}"

    def given(self):
        given = {f"input/{name}": self.tensors[name] for name in ("input", "cotangent")}
        given |= {f"input/{name}": self.tensors[f"argument/{name}"] for name in self.inputs}
        for name in self.parameters:
            given[f"variable/{self.path(name)}"] = self.tensors[f"parameter/{name}"]
        for name in self.states:
            given[f"variable/{self.path(name)}"] = self.tensors[f"state/{name}"]
        return given

    def expected(self):
        expected = {"result/output": self.tensors["output"]}
        for name in ("input", *self.inputs):
            if self.gradient(name) in self.tensors:
                expected[f"result/{name}"] = self.tensors[self.gradient(name)]
        for name in self.parameters:
            expected[f"result/{name.replace('/', '_')}"] = self.tensors[f"gradient/{name}"][np.newaxis]
        for name in self.states:
            expected[f"variable/{self.path(name)}"] = self.tensors["new_state/" + name if self.training else "state/" + name]
        return expected


class Function(Case):
    def text(self):
        return f"""step {self.step}(input: {self.type('input')}, cotangent: {self.type('cotangent')}) {{
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
        return f"""step {self.step}(target: {self.type('target')}, input: {self.type('input')}, cotangent: {self.type('cotangent')}) {{
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
        gradients = f"grad(sum({self.model}() * gradient), params({self.model}))"
        if "clip" in self.row:
            gradients = call(self.row["clip"]["call"], self.row["clip"]["arguments"], [gradients])
        return f"""model {self.model}() {{
    param w: f32{shape} = zeros()
    return w
}}
step {self.step}(gradient: {self.type('gradients')}) {{
    apply({literal(self.row)}, {gradients})
    return parameter: {self.model}()
}}
"""

    def given(self):
        return {"input/gradient": self.tensors["gradients"], f"variable/{self.model}/w": self.tensors["parameters"][0]}

    def expected(self):
        return {"result/parameter": self.tensors["parameters"][1:]}

    def options(self):
        return {"rows": 1}


class Schedule(Case):
    """A parameter that becomes the rate, as an optimizer sees it, at each update."""

    def text(self):
        rate = self.arguments["initial"] if self.row["call"] == "constant" else literal(self.row)  # a number is the constant schedule
        return f"""model {self.model}() {{
    param p: f32 = zeros()
    return p
}}
step {self.step}(tick: f32[B]) {{
    apply(probe(rate: {rate}), grad(sum({self.model}() * tick), params({self.model})))
    return rate: {self.model}()
}}
"""

    def given(self):
        return {"input/tick": np.ones(len(self.tensors["output"]), np.float32)}

    def expected(self):
        return {"result/rate": self.tensors["output"]}

    def options(self):
        return {"rows": 1}


KINDS = {"layer": Layer, "function": Function, "loss": Loss, "optimizer": Optimizer, "schedule": Schedule}


PROBE = """optimizer probe(rate: schedule) {
    update (p, g) { p := rate + 0 * g }
}
"""


def rows():
    """Of each case its row of the index, and its tensors."""
    folder = os.path.join(GOLDEN, "layers")
    with open(os.path.join(folder, "index.json")) as file:
        for row in json.load(file)["cases"]:
            yield row, load_file(os.path.join(folder, row["name"] + ".safetensors"))
    folder = os.path.join(GOLDEN, "library")
    for group in sorted(os.listdir(folder)):
        with safe_open(os.path.join(folder, group), "np") as file:
            for row in json.loads(file.metadata()["cases"]):
                yield row, {name: file.get_tensor(f"{row['name']}/{name}") for name in row["tensors"]}


def load(most=24):
    """Programs of at most so many cases: pairs of a text and a list."""
    cases = [KINDS[row["kind"]](row, tensors, number) for number, (row, tensors) in enumerate(rows())]
    chunks = [cases[first : first + most] for first in range(0, len(cases), most)]
    return [("use nn, losses, optimizers, schedules\n" + PROBE + "".join(case.text() for case in chunk), chunk) for chunk in chunks]
