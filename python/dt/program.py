"""Programs: compiled, or opened, and what they say of themselves."""
from __future__ import annotations

import atexit
import json
import logging
import os
import pathlib
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dt import _dt, html

if TYPE_CHECKING:
    from dt.processes import Processes
    from dt.session import Session

Path = str | os.PathLike[str]
Result = TypeVar("Result")
log = logging.getLogger("dt")


class Tensor(NamedTuple):
    """An input or a result of a step, or a variable."""

    name: str
    """Of a variable its path: `"Net/dense/kernel"`."""
    dtype: str
    """As the language names it: `"f32"`, `"u8"`."""
    shape: tuple[int | None, ...]
    """None is the batch."""
    kind: str | None
    """Of a variable: `"parameter"`, `"state"`, or `"slot"`, which is an optimizer's."""
    trainable: bool
    """Of a parameter: whether it is trained."""

    @classmethod
    def _of(cls, described: tuple[Any, ...]) -> Tensor:
        name, dtype, shape, kind, trainable = described
        return cls(name, dtype, tuple(None if size < 0 else size for size in shape), kind, trainable)

    @property
    def type(self) -> str:
        """As the language writes it: `"u8[B, 28, 28]"`."""
        return f"{self.dtype}[{', '.join('B' if size is None else str(size) for size in self.shape)}]"

    @property
    def size(self) -> int:
        """How many elements; of a batch, how many a row has."""
        n = 1
        for size in self.shape:
            n *= 1 if size is None else size
        return n

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


class Step(NamedTuple):
    """A step of a program: what it takes, returns and reports."""

    name: str
    """As the program names it."""
    trains: bool
    """Whether it changes variables."""
    data: str | None
    """The pipeline that it names as its data."""
    inputs: tuple[Tensor, ...]
    """What `Session.step` takes."""
    results: tuple[Tensor, ...]
    """Arrays that it returns."""
    reports: tuple[str, ...]
    """Numbers that it returns."""

    def __str__(self) -> str:
        returned = [str(result) for result in self.results] + list(self.reports)
        return f"{self.name}({', '.join(map(str, self.inputs))}) -> {', '.join(returned) or 'nothing'}"


class Diagnostic(NamedTuple):
    """One finding of the compiler."""

    is_error: bool
    """Otherwise it is a warning."""
    file: str | None
    """Where it is; None: it has no place."""
    line: int
    """From 1; 0: it has no place."""
    column: int
    """From 1, in bytes."""
    message: str
    """What is wrong, in a sentence."""
    remarks: tuple[str, ...]
    """Notes that explain, and what to do."""
    text: str
    """All of it as a terminal shows it, with the line of the program and carets below it."""
    json: str
    """All of it as `dtc --diagnostics=json` writes it, a line."""
    name: str
    """Of a warning, `"never-read"`: what `# allow: never-read` silences. Empty of an error."""

    @classmethod
    def _of(cls, described: tuple[Any, ...]) -> Diagnostic:
        is_error, file, line, column, message, remarks, text, json, name = described
        return cls(is_error, file, line, column, message, tuple(remark for _, remark in remarks), text.rstrip("\n"), json.rstrip("\n"), name)


class Layer(NamedTuple):
    """A layer of a program."""

    path: str
    """`"Cnn/conv2d_1"`."""
    kind: str
    """`"conv2d"`, or the name of a model."""
    output: str
    """Type of its first result: `"f32[B, 10]"`."""
    depth: int
    """0 for a model."""
    n_parameters: int
    """Its own, not those of layers within it."""
    n_trainable: int
    """Of these."""


class Finding(NamedTuple):
    """What a check of a program found. As a `str` it is a sentence."""

    kind: str
    """`"program"`: types and shapes; `"gradients"`: against slopes; `"replicas"`: a step on three against the step as written;
    `"passes"`: a step after all passes against the step as written; `"batch"`: means of twice the rows, results of rows in another order."""
    verdict: str
    """`"holds"`, `"wrong"`, or `"unknown"`, where the text says why."""
    step: str | None
    """None: of the whole program."""
    n_compared: int
    """Gradients, or results and variables."""
    difference: float
    """The largest, as a share of what is compared."""
    where: str | None
    """Of what does not hold: a variable's path or a result's name."""
    file: str | None
    """Where that is in the program; None: it has no place."""
    line: int
    """From 1; 0: it has no place."""
    text: str
    """All of it, as `dtc check` prints it."""

    @classmethod
    def _of(cls, described: tuple[Any, ...]) -> Finding:
        return cls(*described)._replace(text=described[-1].rstrip("\n"))

    def __str__(self) -> str:
        return self.text


class Picture:
    """A picture of a step, which a notebook shows: layers as boxes, shapes at the arrows between them, and what crosses replicas.

    Graphviz draws it, whose program `dot` has to be installed; its text for Graphviz needs nothing.
    """

    def __init__(self, source: _Source, step: str | None, n_levels: int) -> None:
        self._source, self._step, self._n_levels = source, step, n_levels
        self._drawn: dict[str, bytes] = {}
        self._draw("dot")

    def _draw(self, kind: str) -> bytes:
        if kind not in self._drawn:
            self._drawn[kind] = _result_of(_dt.graph(self._source, self._step, self._n_levels, kind))
        return self._drawn[kind]

    @property
    def dot(self) -> str:
        """Text for Graphviz."""
        return self._draw("dot").decode()

    @property
    def svg(self) -> str:
        """Drawn, as SVG."""
        return self._draw("svg").decode()

    def save(self, path: Path) -> None:
        """Write it: as `.svg`, `.pdf` or `.png`, or as text for Graphviz, `.dot` or `.gv`."""
        path = pathlib.Path(path)
        kind = {".gv": "dot"}.get(path.suffix, path.suffix[1:])
        if kind not in ("dot", "svg", "pdf", "png"):
            raise ValueError(f"{path}: a picture is a .svg, .pdf, .png, .dot or .gv file")
        path.write_bytes(self._draw(kind))

    def _repr_svg_(self) -> str | None:
        try:
            return self.svg
        except _dt.NotFound:  # there is no Graphviz
            return None

    def __repr__(self) -> str:
        return f"<dt.Picture of {self._source.path}>"


class CompileWarning(UserWarning):
    """What the compiler warns of; the program is compiled."""


class _Source(NamedTuple):
    """What the functions of the compiler take as a program."""

    path: str
    source: str | None
    folder: str | None
    defines: list[tuple[str, str]]
    batch: int
    precision: str | None


class Program(_dt.Program):
    """A compiled program. Make one with `dt.compile` or `dt.open`; any number of sessions and threads may share it."""

    _known_source: _Source | None = None
    _artifact: bytes | None = None
    """What it was compiled from; None: it was opened."""

    def _source(self) -> _Source:
        """The text that it was compiled from, and how: an artifact holds both, but not the modules of its own that a program uses."""
        if self._known_source is None:
            defines: list[tuple[str, str]] = []
            batch, precision = 0, None
            for flag in json.loads(self.text("manifest.json"))["flags"]:
                name, _, value = flag.partition(" ")
                if name == "--batch":
                    batch = int(value)
                elif name == "--precision":
                    precision = value
                elif name.startswith("-D"):
                    key, _, value = flag[2:].partition("=")
                    defines.append((key, value))
            self._known_source = _Source(f"{self.name}.dt", self.text(), os.path.dirname(self.path) or os.curdir, defines, batch, precision)
        return self._known_source

    @property
    def name(self) -> str:
        """Of the program: that of its file."""
        return self._describe()[0]

    @property
    def path(self) -> str:
        """The file that it was opened from, or would be written to."""
        return self._describe()[1]

    @property
    def compiler(self) -> str:
        """What compiled it: `"dtc 0.1.0"`."""
        return self._describe()[2]

    @property
    def batch(self) -> int:
        """How many rows a replica has at most."""
        return self._describe()[4]

    @property
    def n_parameters(self) -> int:
        """Elements of all parameters."""
        return self._describe()[5]

    @property
    def n_trainable(self) -> int:
        """Elements of the parameters that are trained."""
        return self._describe()[6]

    @property
    def steps(self) -> dict[str, Step]:
        """The steps of the program by name."""
        steps = {}
        for name, trains, data, inputs, results, reports in self._steps():
            steps[name] = Step(name, trains, data, tuple(map(Tensor._of, inputs)), tuple(map(Tensor._of, results)), tuple(reports))
        return steps

    @property
    def variables(self) -> dict[str, Tensor]:
        """Parameters, states and optimizers' slots by path."""
        return {tensor.name: tensor for tensor in map(Tensor._of, self._variables())}

    def text(self, member: str = "program.dt") -> str:
        """A text that the artifact holds: `"program.dt"`, the program as it was compiled, `"program.ir"`, its graph, or `"plan.txt"`."""
        return self._text(member)

    @property
    def layers(self) -> list[Layer]:
        """Its layers, a layer before those within it."""
        return [Layer(*layer) for layer in _result_of(_dt.summarize(self._source()))[1]]

    def summary(self) -> str:
        """What `dtc summary` prints: layers, parameters, and of each step its arithmetic, its memory and what crosses replicas."""
        text: str = _result_of(_dt.summarize(self._source()))[0]
        return text

    def graph(self, step: str | None = None, *, depth: int | None = None) -> Picture:
        """Draw what a step computes.

        - `step`: None: `"train"`, or else the first.
        - `depth`: layers at this depth are boxes, whatever is in them; models are at 0; None: all layers are shown.
        """
        if depth is not None and depth < 0:
            raise ValueError(f"depth is {depth}: 0, for models, or more")
        return Picture(self._source(), step, 0 if depth is None else depth + 1)

    def check(self, step: str | None = None, *, rows: int = 0) -> list[Finding]:
        """Run the program's steps in an interpreter, on data that is made up: gradients against slopes, three replicas against one, the
        compiled step against the step as written, twice the rows and rows in another order.

        What is wrong is a mistake of the compiler's, and is returned like what holds: `[finding for finding in program.check() if finding.verdict ==
        "wrong"]`.

        - `step`: only this one; None: each.
        - `rows`: for each replica; 0: 2, and of large steps 1.
        """
        return [Finding._of(finding) for finding in _result_of(_interruptible(lambda stops: _dt.check(self._source(), step, rows, stops)))]

    def session(self, *, devices: str = "cpu", threads: int = 0, replicas: int = 1, global_batch: int = 0, seed: int = 0, data: Path | None = None,
                checkpoints: Path | None = None, forward_only: bool = False, ignore_bad_index: bool = False, libraries: bool = True,
                deadline: float = 0, check_numerics: bool = False, measure_kernels: bool = False, timeline_steps: int = 0,
                processes: Processes | None = None, shard_optimizer: bool = False, shard_parameters: bool = False,
                gather_rounds: int = 0, shards_over: int = 0, stages: int = 0, fast_sums: bool = False, placement: str = "mirrored", by_rows: str | None = None,
                data_check: bool = True) -> Session:
        """Put the variables of the program on devices, with new values from the seed.

        - `devices`: `"cpu"`, one device with all cores; `"cpu:2"`, the cores divided evenly among two; `"cpu:2x4"`, two of four; `"cuda:0"`.
        - `threads`: how many cores each device has that does not say it itself; 0: all, shared evenly.
        - `replicas`: how many replicas the global batch is split over. It may change a result; devices never do.
        - `global_batch`: rows of a full step, a multiple of `replicas`; 0: as many for each replica as the program says.
        - `data`: the folder of the files that the program's pipelines read.
        - `checkpoints`: the folder where `train` and `save` write checkpoints.
        - `forward_only`: no gradients and no optimizer's slots are held: steps that train are refused.
        - `ignore_bad_index`: an index out of range in the data is no error.
        - `libraries`: on a GPU, whether vendors' libraries compute what they can.
        - `deadline`: how many seconds a device may take for a step; 0: ten minutes.
        - `check_numerics`: one core computes, and the step that makes the first NaN or infinity is a `dt.OutOfRange` that names the kernel and its
          lines of the program.
        - `measure_kernels`: how long each kernel takes is measured, for the `log_dir` of `train`.
        - `timeline_steps`: of how many steps, the newest, a timeline is kept for `write_timeline`; 0: none.
        - `processes`: those that train this session together, of which all create it; None: this one alone. Devices are those of each, `"cpu"` its
          share of the cores; replicas and the global batch are those of all.
        - `shard_optimizer`: each process keeps its share of the optimizer's slots alone.
        - `shard_parameters`: each process keeps its share of the parameters and of the slots, and gathers those of a layer when it computes it.
        - `gather_rounds`: with `shard_parameters`, in so many rounds of microbatches; 0: in as few as there is memory for.
        - `shards_over`: so many processes have a part each of the shards of the model (`mesh model = M`), and the same examples; 0: each has all.
        - `stages`: the layers of the model are cut into so many stages, of which each process has one; 0: each has all.
        - `fast_sums`: MPI, or NCCL, adds up sums over processes, and their bits are not promised.
        - `placement`: `"mirrored"`, each of several devices has and updates the variables; `"central"`, the first one has the optimizer's slots and
          updates, and the others compute. The same bits.
        - `by_rows`: on CPUs, of a large table of which steps take rows alone, only the rows that a batch names are updated, and processes share its
          rows out. `"exact"`: the same bits, an error where the update changes rows without a gradient; `"lazy"`: such a row changes when a batch
          names it, with other bits; None: all of a table is a variable like others.
        - `data_check`: whether what several processes read of the program's data is compared.
        """
        from dt.session import Session

        return Session._create(self, checkpoints, devices=devices, threads=threads, replicas=replicas, global_batch=global_batch, seed=seed,
                               forward_only=forward_only, ignore_bad_index=ignore_bad_index, no_libraries=not libraries, deadline=deadline,
                               data=None if data is None else os.fspath(data), check_numerics=check_numerics, measure_kernels=measure_kernels,
                               timeline_steps=timeline_steps, processes=processes, shard_optimizer=shard_optimizer,
                               shard_parameters=shard_parameters, gather_rounds=gather_rounds, shards_over=shards_over, stages=stages, fast_sums=fast_sums,
                               placement=placement, by_rows=by_rows, no_data_check=not data_check)

    def __reduce__(self) -> tuple[Any, ...]:
        artifact = self._artifact
        if artifact is None:
            artifact = pathlib.Path(self.path).read_bytes()
            if Program(self.path, artifact)._describe()[3] != self._describe()[3]:
                raise _dt.FailedPrecondition(f"{self.path} is another program now, and this one cannot be pickled")
        return _unpickle, (self.path, artifact, self._known_source)

    def info(self) -> str:
        """What the program holds, as `dtrun info` prints it: variables, steps, data, code, memory."""
        return self._info()

    def bench(self, step: str = "train", *, steps: int = 20, devices: str = "cpu", threads: int = 0, replicas: int = 1, global_batch: int = 0,
              seed: int = 0, data: Path | None = None, source: str | None = None) -> dict[str, Any]:
        """Run a step over and over, and return where its time goes, kernel by kernel: what `dtrun bench --json` prints.

        - `steps`: how many are measured.
        - `devices`, `threads`, `replicas`, `global_batch`, `seed`: as of `session`.
        - `data`: the folder of the files of the pipeline `source`, or that of the step; None: the input is made up.
        """
        described = _interruptible(lambda stops: self._bench(step=step, source=source, steps=steps, devices=devices, threads=threads, replicas=replicas,
                                                             global_batch=global_batch, seed=seed, data=None if data is None else os.fspath(data),
                                                             stops=stops))
        return json.loads(described)  # type: ignore[no-any-return]

    def export_onnx(self, weights: Path | Session, output: Path, *, step: str | None = None) -> None:
        """Write a step with its weights as an ONNX model, which other runtimes read: `onnxruntime.InferenceSession(output)`.

        - `weights`: a checkpoint, a `.safetensors` file, or a session: what it has now.
        - `step`: one that updates nothing; None: `"predict"`, or the only one that does not train.

        What ONNX has no operator for is a `dt.CompileError` that names its place in the program.
        """
        if not isinstance(weights, (str, os.PathLike)):
            with tempfile.TemporaryDirectory() as folder:
                return self.export_onnx(weights.save(folder), output, step=step)
        graph = _Source(f"{self.name}.ir", self.text("program.ir"), None, [], 0, None)
        _result_of(_dt.compile(graph, None, None, None, os.fspath(output), "onnx", step, os.fspath(weights)))

    def __repr__(self) -> str:
        return f"<dt.Program {self.name}: {self.n_parameters:,} parameters, steps {', '.join(self.steps)}>"

    def _repr_html_(self) -> str:
        return html.program(self)


def _interruptible(call: Callable[[list[bool]], Result]) -> Result:
    """What a call gives that does not look for signals. Ctrl-C ends the wait for it: it is told by an item of its list, and goes on in a thread of its
    own until it looks there, or ends, which Python waits for before it exits."""
    if threading.current_thread() is not threading.main_thread():
        return call([])
    stops: list[bool] = []
    ended: list[tuple[Result | None, BaseException | None]] = []

    is_over = threading.Event()

    def run() -> None:
        try:
            ended.append((call(stops), None))
        except BaseException as error:
            ended.append((None, error))
        is_over.set()

    thread = threading.Thread(target=run)
    try:
        thread.start()
        is_over.wait()  # and not join(), which Ctrl-C makes forget the thread
    except BaseException:
        stops.append(True)
        atexit.register(_wait_or_leave, is_over)
        raise
    result, error = ended[0]
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _wait_or_leave(is_over: threading.Event) -> None:
    """At the exit: Ctrl-C again does not wait for what is under way, and runs nothing beside it either."""
    try:
        is_over.wait()
    except KeyboardInterrupt:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)


def _unpickle(path: str, artifact: bytes, source: _Source | None) -> Program:
    made = Program(path, artifact)
    made._artifact, made._known_source = artifact, source
    return made


def _expression(value: Any) -> str:
    """A value of Python's as the language writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{quoted}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_expression, value))}]"
    raise TypeError(f"{value!r} is no option: numbers, strings, booleans and lists of them are")


def _read(program: Path, name: str | None) -> tuple[str, str | None, str | None]:
    """The path that messages name, the text, and the folder of modules, each None where the compiler finds it itself."""
    if isinstance(program, str) and "\n" in program:
        return name or "program.dt", program, os.curdir
    return os.fspath(program), None, None


def compile(program: Path, options: Mapping[str, Any] | None = None, *, name: str | None = None, output: Path | None = None, batch: int = 0,
            precision: str | None = None, target: str | None = None, cpu: str | None = None, optimize: str | None = None) -> Program:
    """Compile a program: a file, or the text of one, which has more than one line.

    - `options`: values for the options that the program declares, as `dtc compile -D name=value` sets them.
    - `name`: what messages and the artifact call a text: `"net.dt"`.
    - `output`: a file for the artifact, for `dt.open` and `dtrun`.
    - `batch`: rows of a replica that memory is planned for; 0: the program's largest `batch(n)`.
    - `precision`: precision of what is computed: `"f32"`, `"tf32"`, `"bf16"`, `"mixed_bf16"` or `"mixed_f16"`.
    - `target`: `"cpu"`, or `"cuda"`, which is beside the CPU; `"cuda:sm_90"`.
    - `cpu`: instruction sets: `"x86-64-v3,x86-64-v4"`, `"native"`.
    - `optimize`: what to leave out: `"no-fuse"`.

    Ctrl-C raises KeyboardInterrupt at once; the compiler finishes what it has begun in the background.

    A program with mistakes is a `dt.CompileError`, whose text is the compiler's; what it only warns of is a `dt.CompileWarning`.
    """
    path, source, folder = _read(program, name)
    defines = [(key, _expression(value)) for key, value in (options or {}).items()]
    output = None if output is None else os.fspath(output)
    known = _Source(path, source, folder, defines, batch, precision)
    compiled = _interruptible(lambda stops: _dt.compile(known, target, cpu, optimize, output, None, None, None))
    artifact = _result_of(compiled)
    for one in compiled[1]:
        warnings.warn(Diagnostic._of(one).text, CompileWarning, stacklevel=2)
    made = Program(output if output is not None else str(pathlib.Path(path).with_suffix(".dtx")), artifact)
    folder = os.path.abspath(folder or os.path.dirname(path))
    made._artifact = artifact
    made._known_source = known._replace(source=made.text(), folder=folder)  # the file may change from here on
    return made


def format(program: Path, *, name: str | None = None) -> str:
    """The text of a program, a file or the text of one, as `dtc fmt` writes it; nothing is written.

    - `name`: what messages call a text: `"net.dt"`.

    A program with mistakes in its grammar is a `dt.CompileError`.
    """
    path, source, folder = _read(program, name)
    text: str = _result_of(_dt.format(_Source(path, source, folder, [], 0, None)))
    return text


def _result_of(pair: tuple[Any, list[tuple[Any, ...]]]) -> Any:
    """What a function of the compiler gave; a program with mistakes is an exception."""
    result, described = pair
    if result is None:
        raise _compile_error([Diagnostic._of(one) for one in described])
    return result


def _compile_error(diagnostics: list[Diagnostic]) -> _dt.CompileError:
    error = _dt.CompileError("\n" + "\n".join(diagnostic.text for diagnostic in diagnostics))
    first = next((diagnostic for diagnostic in diagnostics if diagnostic.is_error), diagnostics[0])
    error.diagnostics = diagnostics
    error.file, error.line, error.column = first.file, first.line, first.column
    return error


def open(path: Path) -> Program:
    """Open an artifact, a `.dtx` file that `dtc compile` or `dt.compile(…, output=…)` wrote."""
    return Program(os.fspath(path))


def devices() -> str:
    """What this machine has, and what `devices` of a session can name, as `dtrun devices` prints it."""
    return _dt.devices()


def report(*folders: Path, output: Path = "report.html") -> None:
    """Write one HTML page of one or several runs: of what `train(log_dir=…)` wrote to each folder."""
    _dt.report([os.fsencode(folder) for folder in folders], os.fspath(output))


def export_weights(weights: Path, output: Path, *, map: Path | None = None, allow_missing: bool = False) -> str:
    """Write the parameters and states of a checkpoint, or of a `.safetensors` file, as a `.safetensors` file for elsewhere, and return what was done.

    `map` is a file that says which name there is which variable, the one that `Session.load` takes, applied backwards; with `allow_missing`, what it
    has no rule for is left out. What is likely not meant is a warning of the logger `"dt"`.
    """
    text, warned = _dt.export(os.fspath(weights), os.fspath(output), None if map is None else os.fspath(map), allow_missing)
    for line in warned.splitlines():
        log.warning("%s", line)
    return text
