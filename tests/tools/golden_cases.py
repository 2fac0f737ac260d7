"""golden_cases: each case of tests/golden/layers and tests/golden/library as a step of a program, and the numbers that it must give.

The steps of layers, functions and losses train, by gradient descent at the case's rate: of what has no parameters a shift of the input. They are run as
often as the updates are many, and what they return besides the updated is that of the first time."""

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
        self.number = number
        self.model, self.step = f"Case{number}", f"run{number}"
        self.updated = sorted(name[len("updated/") :] for name in self.tensors if name.startswith("updated/"))

    def steps(self):
        """What is run, one after another."""
        return ",".join([self.step] * (len(self.tensors[f"updated/{self.updated[0]}"]) if self.updated else 1))

    def compared(self, found):
        """(name, what was found, what was expected) of each result."""
        for name, expected in self.expected().items():
            yield name, found[name][: len(expected)] if expected.ndim > 0 else found[name], expected

    def path(self, name):
        """Of a variable, as the language spells it."""
        return f"Shift{self.number}.shift" if name == "shift" else f"{self.model}.{self.row['call']}.{name.replace('/', '.')}"

    def shift(self):
        """A model, and an expression of the input, shifted."""
        if self.updated != ["shift"]:
            return "", "input"
        dims = ", ".join(map(str, self.row["tensors"]["input"]["shape"][1:]))
        return f"model Shift{self.number}() {{\n    param shift: f32[{dims}] = zeros()\n    return shift\n}}\n", f"input + Shift{self.number}()"

    def training(self, loss):
        """The line that trains, and what is returned after it."""
        results = "".join(f", updated_{name.replace('/', '_')}: {self.path(name)}" for name in self.updated)
        return f"    minimize({loss}, sgd(learning_rate: {self.row['rate']}), normalize: examples)\n", results

    def expected_updates(self):
        return {f"result/updated_{name.replace('/', '_')}": self.tensors[f"updated/{name}"] for name in self.updated}

    def type(self, name):
        """Of a tensor whose first dimension is the batch."""
        tensor = self.row["tensors"][name]
        return f"{tensor['dtype']}[{', '.join(['B', *map(str, tensor['shape'][1:])])}]"

    def options(self):
        return {}


class Layer(Case):
    """Value, gradients by the input and by each parameter, updates and new states, of a model of that one layer."""

    def __init__(self, *row):
        super().__init__(*row)
        self.mode = self.arguments.pop("training", None)
        self.inputs = [name[len("argument/") :] for name in self.tensors if name.startswith("argument/")]
        self.parameters = [name[len("parameter/") :] for name in self.tensors if name.startswith("parameter/")]
        self.states = [name[len("state/") :] for name in self.tensors if name.startswith("state/")]

    def text(self):
        mode = f", training: {literal(self.mode)}" if self.mode is not None else ""
        more = "".join(f", {name}: {self.type('argument/' + name)}" for name in self.inputs)
        given = self.arguments | {name: name + (" > 0" if name == "mask" else "") for name in self.inputs}
        x_named = f"{self.row['named']}: x" if "named" in self.row else "x"
        results = {name: f"grad(total, {name})" for name in ("input", *self.inputs) if self.gradient(name) in self.tensors}
        results |= {f"gradient_{name.replace('/', '_')}": f"grad(total, {self.path(name)})" for name in self.parameters}
        shift, x = self.shift()
        training, updated = self.training("square(output - cotangent)")
        gradients = "".join(f"    of_{name} = {value}\n" for name, value in results.items())  # before the parameters change
        return f"""{shift}model {self.model}(x: {self.type('input')}{more}) {{ return {call(self.row['call'], given, [x_named])} }}
step {self.step}(input: {self.type('input')}{more}, cotangent: {self.type('cotangent')}) {{
    output = {self.model}({', '.join([x, *self.inputs])}{mode})
    total = sum(output * cotangent)
{gradients}{training}    return output: output, {', '.join(f'{name}: of_{name}' for name in results)}{updated}{"".join(
        f', state_{name}: {self.path(name)}' for name in self.states)}
}}
"""

    def gradient(self, name):
        return "gradient/input" if name == "input" else f"gradient/argument/{name}"

    def given(self):
        given = {f"input/{name}": self.tensors[name] for name in ("input", "cotangent")}
        given |= {f"input/{name}": self.tensors[f"argument/{name}"] for name in self.inputs}
        for kind, names in (("parameter", self.parameters), ("state", self.states)):
            given |= {f"variable/{self.path(name).replace('.', '/')}": self.tensors[f"{kind}/{name}"] for name in names}
        return given

    def expected(self):
        expected = {"result/output": self.tensors["output"]} | self.expected_updates()
        for name in ("input", *self.inputs):
            if self.gradient(name) in self.tensors:
                expected[f"result/{name}"] = self.tensors[self.gradient(name)]
        for name in self.parameters:
            expected[f"result/gradient_{name.replace('/', '_')}"] = self.tensors[f"gradient/{name}"][np.newaxis]
        for name in self.states:
            expected[f"result/state_{name}"] = self.tensors["new_state/" + name] if self.mode else self.tensors["state/" + name][np.newaxis]
        return expected


class Function(Case):
    given_names, loss = ("input", "cotangent"), "square(output - cotangent)"

    def text(self):
        shift, x = self.shift()
        training, updated = self.training(self.loss)
        return f"""{shift}step {self.step}({', '.join(f'{name}: {self.type(name)}' for name in self.given_names)}) {{
    x = {x}
    output = {call(self.row['call'], self.arguments, ['target', 'x'] if 'target' in self.given_names else ['x'])}
    gradient = grad(sum(output * cotangent), input)
{training}    return output: output, input: gradient{updated}
}}
"""

    def given(self):
        return {f"input/{name}": self.tensors[name] for name in self.given_names}

    def expected(self):
        return {"result/output": self.tensors["output"], "result/input": self.tensors["gradient/input"]} | self.expected_updates()


class Loss(Function):
    given_names, loss = ("target", "input", "cotangent"), "output"


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
    return [("use nn, losses, optimizers, schedules, images, ordering, segments\n" + PROBE + "".join(case.text() for case in chunk), chunk) for chunk in chunks]
