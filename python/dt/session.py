"""Sessions: the variables of a program on devices, ready to step."""
from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, AnyStr

import numpy

from dt import _dt
from dt.callbacks import Callbacks, Moment
from dt.data import Arrays, in_order, is_array, missing_step, take
from dt.processes import Processes
from dt.program import Path, Program, Step
from dt.training import Epochs, Gathered, Report, Training, remark


def _as_array(memory: _dt.Memory) -> numpy.ndarray[Any, Any]:
    """An array of NumPy's that shows the memory."""
    array = numpy.asarray(memory)
    if memory.dtype == "bf16":  # which the buffer protocol cannot name
        import ml_dtypes

        return array.view(ml_dtypes.bfloat16)
    return array


class LaunchValues(MutableMapping[str, float]):
    """The scalars that a program reads at each step: those that it declares with `launch`, and `"seed"`, `"counter"`, `"epochs"`,
    `"steps_per_epoch"`. One that is set is read by the next step."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getitem__(self, name: str) -> float:
        return self._session._get_launch(name)

    def __setitem__(self, name: str, value: float) -> None:
        self._session._set_launch(name, value)

    def __delitem__(self, name: str) -> None:
        raise TypeError("a launch value cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._session.program._launch_values())

    def __len__(self) -> int:
        return len(self._session.program._launch_values())

    def __repr__(self) -> str:
        return repr(dict(self))


class Session(_dt.Session):
    """The variables of a program on devices. Make one with `Program.session`.

    `session["Net/dense/kernel"]` is a read-only view of a variable where it is: later steps change what it shows, and it keeps the session alive.
    `session["Net/dense/kernel"] = array` writes it.

    A session is used by one thread at a time, and not in a child after fork: both are a `dt.FailedPrecondition`. Different sessions are independent.
    Steps release the GIL.
    """

    program: Program
    """What it runs."""
    checkpoints: str | None
    """The folder where `train` and `save` write checkpoints."""
    processes: Processes | None
    """Those that train it together, of which this is one; None: it is alone."""
    _quick: dict[str, tuple[tuple[str, ...], int]]

    @classmethod
    def _create(cls, program: Program, checkpoints: Path | None, **options: Any) -> Session:
        session = cls(program, _as_array, remark, **options)
        session.program = program
        session.processes = options["processes"]
        session.checkpoints = None if checkpoints is None else os.fspath(checkpoints)
        session._quick = {}
        return session

    # ---- where it is ----

    @property
    def replicas(self) -> int:
        """How many replicas the global batch is split over."""
        return self._describe()[0]

    @property
    def global_batch(self) -> int:
        """Rows of a full step."""
        return self._describe()[1]

    @property
    def rows(self) -> slice:
        """Which rows of each global batch this process gives: `step("train", image=batch[session.rows])`. All of them where it is alone."""
        first, n = self._describe()[10:]
        return slice(first, first + n)

    @property
    def seed(self) -> int:
        """Of initial values, of the order of examples, of random numbers."""
        return self._describe()[2]

    @property
    def memory_bytes(self) -> int:
        """What it takes on all devices together."""
        return self._describe()[3]

    @property
    def memory_of_devices(self) -> dict[str, dict[str, int]]:
        """By device, in bytes: `{"cuda:0": {"all": …, "variables": …, "optimizer": …}}`. Of devices that share their memory the first one has what all have
        together."""
        return {name: {"all": memory, "variables": variables, "optimizer": slots} for name, memory, variables, slots in self._devices()}

    @property
    def level(self) -> str:
        """Of the code that runs: `"x86-64-v4"`, `"sm_90"`."""
        return self._describe()[6]

    @property
    def n_steps(self) -> int:
        """Training steps done."""
        return self._describe()[7]

    @property
    def epoch(self) -> int:
        """Epochs of training done."""
        return self._describe()[8]

    @property
    def launch(self) -> LaunchValues:
        """The program's launch values: `session.launch["rate"] = 3e-4`."""
        return LaunchValues(self)

    def __repr__(self) -> str:
        if self.closed:
            return "<dt.Session, closed>"
        try:
            replicas, global_batch, _, _, _, _, _, n_steps, *_ = self._describe()
        except _dt.FailedPrecondition:  # by another thread, which may also have closed it by now, or by the parent of this process
            return f"<dt.Session of {self.program.name}, in use elsewhere>"
        return f"<dt.Session of {self.program.name}: {replicas} replicas, global batch {global_batch}, {n_steps:,} steps done>"

    # ---- variables ----

    def __getitem__(self, path: str) -> numpy.ndarray[Any, Any]:
        try:
            return _as_array(super().__getitem__(path))
        except _dt.NotFound:
            raise self._no_variable(path) from None

    def __setitem__(self, path: str, array: Any) -> None:
        try:
            super().__setitem__(path, array)
        except _dt.NotFound:
            raise self._no_variable(path) from None

    def _no_variable(self, path: str) -> _dt.NotFound:
        """Programs write dots where paths have slashes."""
        near = difflib.get_close_matches(path.replace(".", "/"), self.program.variables, 1)
        meant = f"did you mean {near[0]!r}?" if near else "program.variables has their paths"
        return _dt.NotFound(f"there is no variable {path!r}: {meant}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.program.variables)

    def __contains__(self, path: object) -> bool:
        return path in self.program.variables

    def keys(self) -> list[str]:
        """The paths of all variables."""
        return list(self.program.variables)

    # ---- training ----

    def train(self, given: Any = None, *, batch_size: int = 0, shuffle: bool | None = None, validation: Any = None, epochs: int = 1, step: str = "train",
              data: str | None = None, max_steps: int = 0, checkpoint_every: int = 0, keep: int = 0, keep_best: str | None = None,
              stop_after_no_gain: int = 0, reduce_on_plateau: str | None = None, log_dir: Path | None = None, log_every: int = 0,
              log_histograms: int = 0, progress: bool | None = None,
              callbacks: Iterable[Any] | Callable[[Moment], object] | None = None) -> Training:
        """Train, an epoch for each report that is asked for: `for report in session.train(epochs=5)`.

        - `given`: None: the program's own data. Or arrays, by the names of the step's inputs or as a tuple in their order: `{"image": x, "label": y}`.
          Or what gives the batches of an epoch each time it is iterated over, a list, a PyTorch `DataLoader`, a `tf.data.Dataset`, or a function that
          makes such, as a generator function does: tuples in the order of the step's inputs, or dicts of them. Of several processes each has the
          same arrays, and each gives its rows of a batch.
        - `batch_size`: of arrays, rows of a batch, at most those of `session.global_batch`; 0: as many.
        - `shuffle`: of arrays, whether each epoch has another order; None: it has.
        - `validation`: with data that is given, that of the step `evaluate`, which is run after each epoch. The program's own data is evaluated on where
          it has a step `evaluate`.
        - `epochs`: how many more.
        - `step`: which step trains.
        - `data`: the program's pipeline to read; None: that of the step.
        - `max_steps`: how many more steps at most; 0: no limit.
        - `checkpoint_every`: with a folder of checkpoints, steps from one to the next; 0: one after each epoch.
        - `keep`: how many of the newest are kept; 0: 3.
        - `keep_best`: keep also the best by a report: `"evaluate.accuracy"`.
        - `stop_after_no_gain`: end after so many epochs in which that was no better; 0: never.
        - `reduce_on_plateau`: a report and the launch value that is reduced where it brings no gain: `"evaluate.loss:rate"`.
        - `log_dir`: a folder for what `dt.report` and TensorBoard show; one that holds another run is refused; a session that was loaded, or has
          written there before, goes on in it.
        - `log_every`: steps from one that is written there to the next; 0: epochs alone.
        - `log_histograms`: epochs from one histogram of the weights to the next; 0: none.
        - `progress`: whether bars are shown, which takes tqdm; None: in a terminal or a notebook, if tqdm is installed.

        - `callbacks`: functions that are called with a `dt.Moment` at each step, epoch, evaluation, checkpoint and at the end, or objects that have methods
          of these names: `step`, `epoch`, `evaluation`, `checkpoint`, `end`. They may stop the training, set launch values, and log numbers and pictures
          of their own. There are ready ones in `dt.callbacks`.

        A training that was saved in the middle of an epoch goes on there, with arrays to the same bits, with a list at its next batch, with what has
        `state_dict` and `load_state_dict` where that says; with all else the epoch begins anew, and the logger "dt" says so.

        Ctrl-C finishes the step, writes a checkpoint if there is a folder for them, and raises KeyboardInterrupt.
        """
        if epochs < 1:
            raise ValueError(f"epochs is {epochs}: at least 1")
        if max_steps < 0:
            raise ValueError(f"max_steps is {max_steps}: 0, for no limit, or more")
        options: dict[str, Any] = {"step": step, "source": data, "checkpoint_every": checkpoint_every, "keep": keep, "keep_best": keep_best,
                                   "stop_after_no_gain": stop_after_no_gain, "reduce_on_plateau": reduce_on_plateau,
                                   "log_dir": None if log_dir is None else os.fspath(log_dir), "log_every": log_every, "log_histograms": log_histograms,
                                   **self._given(step, given, batch_size, shuffle, validation, data)}
        needs_folder = [name for name in ("checkpoint_every", "keep", "keep_best") if options[name] and self.checkpoints is None]
        if needs_folder and not (needs_folder == ["keep_best"] and stop_after_no_gain):
            raise TypeError(f"{' and '.join(needs_folder)}: there is no folder of checkpoints: program.session(checkpoints=\"checkpoints\")")
        if log_dir is None and (log_every or log_histograms):
            raise TypeError(f"{'log_every' if log_every else 'log_histograms'} is of what is written to log_dir, and there is none")
        return Training(self._epochs(epochs, max_steps, progress, Callbacks(self, callbacks), options))

    def _given(self, step: str, given: Any, batch_size: int, shuffle: bool | None, validation: Any, data: str | None) -> dict[str, Any]:
        """What the runtime is given of data of one's own."""
        if given is None:
            unused = [name for name, value in (("validation", validation), ("batch_size", batch_size or None), ("shuffle", shuffle)) if value is not None]
            if unused:
                raise TypeError(f"{' and '.join(unused)}: for data that is given, and the program's own is read")
            return {"given": None, "validation": None}
        if data is not None:
            raise TypeError(f"data={data!r} names data of the program, and other data is given")
        steps, alone = self.program.steps, not self._has_others()
        for name in (step,) if validation is None else (step, "evaluate"):
            if name not in steps:
                raise missing_step(steps, name)
        evaluated = None
        if validation is not None:
            self._refuse_training("evaluate")
            evaluated = take(steps["evaluate"], validation, 0, None, alone, False)
            if isinstance(evaluated, Arrays):
                evaluated.batch = batch_size
        return {"given": take(steps[step], given, batch_size, shuffle, alone, True), "validation": evaluated}

    def _epochs(self, epochs: int, max_steps: int, progress: bool | None, callbacks: Callbacks, options: dict[str, Any]) -> Iterator[Report]:
        listener = Epochs(options["step"], self._shows(progress), callbacks)
        until, last = self.epoch + epochs, self.n_steps + max_steps if max_steps else 0
        reason = "pause"
        try:
            while reason == "pause":
                try:
                    _, _, _, reason = self._train(listener, epochs=until, pause_after_epochs=1, max_steps=last, checkpoint_dir=self.checkpoints,
                                                  resume=False, tell_every=callbacks.tell_every, **options)
                finally:
                    listener.bars.close()
                report = listener.take(self.n_steps)
                if reason != "pause":
                    callbacks.end(reason)
                if report is not None:
                    yield report
        except GeneratorExit:
            callbacks.end("left")
            raise
        except BaseException:
            callbacks.end("error")
            raise

    def gather(self, *steps: str) -> Gathered:
        """Gather what steps report in a loop of one's own, as `train` does for an epoch:

            for epoch in range(10):
                with session.gather("critic", "generator") as report:
                    for batch in batches:
                        session.step("critic", image=batch)
                        session.step("generator", noise=noise())
                print(report)  # critic.loss, generator.loss: of all batches

        The report of a single step has its names as they are.
        """
        if not steps:
            raise TypeError("gather() takes the names of steps")
        for step in steps:
            self._step(step)
        self._n_gathered = getattr(self, "_n_gathered", 0) + 1
        return Gathered(self, steps, self._n_gathered)

    def _refuse_training(self, step: str) -> None:
        """What evaluates or predicts changes nothing."""
        if step in self.program.steps and self.program.steps[step].trains:
            raise _dt.InvalidArgument(f"step {step} trains: run it with train(step={step!r})")

    def _step(self, name: str) -> Step:
        if name not in self.program.steps:
            raise missing_step(self.program.steps, name)
        return self.program.steps[name]

    def _has_others(self) -> bool:
        return self.processes is not None and self.processes.count > 1

    def _shows(self, progress: bool | None) -> bool | None:
        """Of several processes one shows bars."""
        return False if progress is None and self.processes is not None and self.processes.number > 0 else progress

    # ---- evaluation and prediction ----

    def evaluate(self, given: Any = None, *, batch_size: int = 0, step: str = "evaluate", data: str | None = None, progress: bool | None = None,
                 **inputs: Any) -> dict[str, Any]:
        """Run a step that does not train over all of its data, and return what it reports: floats, and arrays of reports with a shape.

        The data is the program's own, its pipeline `data` or that of the step; or what `train` takes; or arrays, one for each input by its name, of any
        number of rows, the same in all processes. A mapping of them is the same, for inputs that are named like a parameter of this:
        `evaluate({"step": array})`.
        """
        self._refuse_training(step)
        if given is not None and inputs:
            raise TypeError("evaluate() takes data, or arrays by name, not both")
        given = inputs if inputs else given
        if isinstance(given, Mapping) and any(not tensor.shape or tensor.shape[0] is not None for tensor in self._step(step).inputs):
            given = list(self._batches(step, given))
        options = self._given(step, given, batch_size, False if isinstance(given, (Mapping, tuple)) or is_array(given) else None, None, data)
        listener = Epochs(step, self._shows(progress))
        try:
            self._evaluate(listener, step=step, source=data, given=options["given"])
        finally:
            listener.bars.close()
        return self._totals(step)

    def predict(self, *arrays: Any, step: str = "predict", **inputs: Any) -> dict[str, numpy.ndarray[Any, Any]]:
        """Run a step on arrays of any number of rows, and return its results by name.

        The arrays are in the order of the step's inputs, or by name, or a mapping of them by name; or what gives batches, as `train` takes it. It is for
        a process that is alone: of several, each has the results of its rows by `step`.
        """
        if step not in self._quick and self._is_quick(step):
            self._quick[step] = tuple(tensor.name for tensor in self._step(step).inputs), self.global_batch
        names, most = self._quick.get(step, ((), 0))
        batch = inputs if not arrays else dict(zip(names, arrays)) if len(arrays) == len(names) and not inputs else {}
        if batch and names and all(isinstance(array, numpy.ndarray) and array.ndim and len(array) <= most for array in batch.values()):
            return self.step(step, **batch)
        if self._has_others():
            raise _dt.FailedPrecondition("predict() gives the results of all rows, and each process has those of its own: run step() on them")
        self._refuse_training(step)
        if arrays and inputs:
            raise TypeError("predict() takes arrays in order, or by name, not both")
        found = self._step(step)
        names = tuple(tensor.name for tensor in found.inputs)
        if len(arrays) == 1 and not is_array(arrays[0]) and not isinstance(arrays[0], Mapping):
            given = arrays[0]() if callable(arrays[0]) and not isinstance(arrays[0], Iterable) else arrays[0]
            parts = [self.step(step, dict(zip(names, in_order(step, names, batch)))) for batch in given]
        else:
            whole = inputs if not arrays else arrays[0] if isinstance(arrays[0], Mapping) else dict(zip(names, in_order(step, names, arrays)))
            parts = [self.step(step, batch) for batch in self._batches(step, whole)]
        if not parts:
            raise ValueError(f"{step}: there are no batches")
        rows = {tensor.name for tensor in found.results if tensor.shape and tensor.shape[0] is None}
        return {name: numpy.concatenate([part[name] for part in parts]) if name in rows and len(parts) > 1 else value
                for name, value in parts[-1].items()}

    def _is_quick(self, step: str) -> bool:
        """Whether arrays of few rows are a batch, and nothing else has to be looked at."""
        found = self._step(step)
        return not found.trains and not self._has_others() and all(tensor.shape[:1] == (None,) for tensor in found.inputs)

    def _batches(self, step: str, arrays: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The arrays, a global batch after the other, of each the rows of this process."""
        known = {tensor.name: tensor for tensor in self.program.steps[step].inputs} if step in self.program.steps else {}
        split = {name for name in arrays if name in known and known[name].shape and known[name].shape[0] is None and hasattr(arrays[name], "__len__")}
        lengths = {name: len(arrays[name]) for name in split}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{step}: the arrays have different numbers of rows: {', '.join(f'{name} {n}' for name, n in lengths.items())}")
        rows, batch = max(lengths.values(), default=0), self.global_batch
        if rows <= batch and not self._has_others():
            yield dict(arrays)
            return
        for begin in range(0, max(rows, 1), batch):
            yield {name: array[begin:begin + batch][self.rows] if name in split else array for name, array in arrays.items()}

    def generate(self, prompt: AnyStr, *, length: int = 200, temperature: float | None = None, step: str = "sample",
                 made: Callable[[bytes], object] | None = None) -> AnyStr:
        """Make text byte by byte, and return the prompt and what was made.

        - `prompt`: how the text begins, a `str` or `bytes`; the result is of its type. What is no UTF-8 in a `str` is replaced.
        - `length`: how many bytes are made.
        - `temperature`: of a step that takes one: 0 for the most likely byte each time; None: 1.
        - `step`: one of `(text: u8[B, T], length: i32[B])`, or with `temperature: f32[B]`, that returns the next byte.
        - `made`: called with the prompt, and then with each byte as it is made.

        The same weights and seed make the same text.
        """
        if length < 1:
            raise ValueError(f"length is {length}: at least 1")
        given = prompt.encode() if isinstance(prompt, str) else prompt
        text = self._generate(made, step=step, prompt=given, length=length, temperature=temperature)
        return text.decode(errors="replace") if isinstance(prompt, str) else text

    # ---- files ----

    def write_data(self, folder: Path, *, step: str = "train", data: str | None = None, epoch: int = 1, batches: int = 0) -> None:
        """Write what a step would see in a training of this session: `INPUT.npy` for each input, all batches one after the other, and
        `batch-rows.npy` with the rows of each.

        - `data`: the program's pipeline to read; None: that of the step.
        - `epoch`: from 1.
        - `batches`: how many; 0: those of the epoch.
        """
        self._write_data(remark, step=step, source=data, epoch=epoch, n_batches=batches, output=os.fspath(folder))

    def write_timeline(self, path: Path) -> None:
        """Write what each thread and each GPU did in the newest steps, for ui.perfetto.dev. Of a session with `timeline_steps`."""
        self._write_timeline(remark, os.fspath(path))

    def save(self, folder: Path | None = None) -> str:
        """Write a checkpoint into a folder, or into that of the session, and return its path. It is written whole or not at all."""
        folder = self.checkpoints if folder is None else os.fspath(folder)
        if folder is None:
            raise ValueError("save() needs a folder: save(\"checkpoints\"), or program.session(checkpoints=\"checkpoints\")")
        return self._save(folder)

    def load(self, path: Path | None = None, *, map: Path | None = None, allow_missing: bool = False) -> None:
        """Set the variables from a file.

        - A checkpoint, or a folder of them, of which the newest is read; None is the session's folder. All variables and the position of the training
          are set: `train` goes on as if it had not stopped.
        - A `.safetensors` file: the parameters and states are set. `map` is a file that says which name in it is which variable; with
          `allow_missing`, variables that it does not have keep their values.
        """
        path = self.checkpoints if path is None else os.fspath(path)
        if path is None:
            raise ValueError("load() needs a path: load(\"checkpoints\"), or program.session(checkpoints=\"checkpoints\")")
        if path.endswith(".safetensors") or map is not None or allow_missing:
            self._load_weights(path, None if map is None else os.fspath(map), allow_missing, remark)
        else:
            self._load(path)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
