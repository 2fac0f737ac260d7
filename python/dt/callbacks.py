"""What is called while a session trains: functions, or objects with methods for what interests them; and ready ones for tqdm, wandb and mlflow."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from dt.session import Session

KINDS = ("step", "epoch", "evaluation", "checkpoint", "end")


class Moment:
    """A moment of a training, which callbacks are called at."""

    kind: str
    """`"step"`, `"epoch"`, `"evaluation"`, `"checkpoint"` or `"end"`."""
    session: Session
    """It can be read, and `session.launch` be written, but at the end; nothing else is possible."""
    step: int
    """Training steps done, in all."""
    epoch: int
    """That is under way, or has ended, from 1."""
    epochs: int
    """In all, when the training has ended."""
    steps_per_epoch: int
    """0: not known."""
    values: Mapping[str, Any]
    """What was reported, by name: of this step; of the epoch's training; or, as `"evaluate.loss"`, of an evaluation."""
    path: str | None
    """Of a checkpoint."""
    reason: str | None
    """At the end: `"epochs"`, `"max_steps"`, `"no_gain"`, `"stopped"`; `"left"` where nobody asked for the next epoch, `"error"` where something was raised."""

    def __init__(self, kind: str, session: Session, step: int, epoch: int, epochs: int, steps_per_epoch: int, values: Mapping[str, Any],
                 path: str | None = None, reason: str | None = None) -> None:
        self.kind, self.session, self.step, self.epoch, self.epochs, self.steps_per_epoch = kind, session, step, epoch, epochs, steps_per_epoch
        self.values, self.path, self.reason = values, path, reason
        self.stops = False

    def stop(self) -> None:
        """End the training here, as Ctrl-C does, but without an exception."""
        self.stops = True

    def log_scalar(self, name: str, value: float) -> None:
        """Write a number of one's own to `log_dir`, beside the reports."""
        self.session._log_scalar(name, value)

    def log_image(self, name: str, image: Any) -> None:
        """Write a picture to `log_dir`: `[height, width]` or `[height, width, 1 or 3]`, of bytes, or of floats from 0 to 1, or from -1 to 1."""
        array = numpy.asarray(image)
        if array.dtype != numpy.uint8:
            array = array.astype(numpy.float32)
        self.session._log_image(name, array, array.dtype != numpy.uint8)

    def __repr__(self) -> str:
        return f"<dt.Moment: {self.kind}, step {self.step}, epoch {self.epoch}>"


class Callbacks:
    """Those of a training, by the kind of moment."""

    def __init__(self, session: Session, given: Iterable[Any] | Callable[[Moment], object] | None) -> None:
        self._session = session
        some = [] if given is None else list(given) if isinstance(given, Iterable) else [given]
        self._of: dict[str, list[Callable[[Moment], object]]] = {kind: [] for kind in KINDS}
        for one in some:
            found = {kind: getattr(one, kind) for kind in KINDS if callable(getattr(one, kind, None))}
            if not found and not callable(one):
                raise TypeError(f"{one!r} is no callback: it is a function of a moment, or has a method {', '.join(KINDS[:-1])} or {KINDS[-1]}")
            for kind in KINDS:
                if found.get(kind, one if not found else None) is not None:
                    self._of[kind].append(found.get(kind, one))
        self._epochs = self._steps_per_epoch = self._step = self._epoch = 0
        self._is_under_way = False

    @property
    def tell_every(self) -> int:
        """Whether somebody wants to know of each step."""
        return 1 if self._of["step"] else 0

    def hear(self, event: Mapping[str, Any], step: str) -> bool:
        """An event of the runtime, in a training of `step`. Whether the training is to stop."""
        kind, values = event["kind"], event["values"]
        if kind == "start":
            self._epochs, self._steps_per_epoch, self._is_under_way = event["epochs"], event["steps_per_epoch"], True
        elif kind == "step":
            self._step, self._epoch = event["number"], event["epoch"]
            return self._call("step", values)
        elif kind == "epoch" and event["step"] == step:
            self._step, self._epoch = event["number"], event["epoch"]
            return self._call("epoch", values)
        elif kind == "epoch":
            return self._call("evaluation", {f"{event['step']}.{name}": value for name, value in values.items()})
        elif kind == "checkpoint":
            return self._call("checkpoint", {}, path=event["path"])
        elif kind == "end" and event["what"] != "pause":
            self.end("stopped" if event["what"] == "signal" else event["what"])
        return False

    def end(self, reason: str) -> None:
        """The training ends; not more than once."""
        if self._is_under_way:
            self._is_under_way = False
            self._call("end", {}, reason=reason)

    def _call(self, kind: str, values: Mapping[str, Any], path: str | None = None, reason: str | None = None) -> bool:
        if not self._of[kind]:
            return False
        moment = Moment(kind, self._session, self._step, self._epoch, self._epochs, self._steps_per_epoch, values, path, reason)
        for call in self._of[kind]:
            call(moment)
        return moment.stops


class Tqdm:
    """A bar of tqdm's over all steps of a training; `options` are tqdm's."""

    def __init__(self, **options: Any) -> None:
        from tqdm.auto import tqdm

        self._bar = tqdm(unit=" steps", **options)

    def step(self, moment: Moment) -> None:
        self._bar.total = moment.epochs * moment.steps_per_epoch or None
        self._bar.update(moment.step - self._bar.n)

    def epoch(self, moment: Moment) -> None:
        self._bar.set_postfix(_numbers(moment.values))

    def end(self, moment: Moment) -> None:
        self._bar.close()


class Wandb:
    """Reports of epochs and evaluations as a run of Weights & Biases; `options` are those of `wandb.init`."""

    def __init__(self, **options: Any) -> None:
        import wandb

        self._run = wandb.init(**options)

    def epoch(self, moment: Moment) -> None:
        self._run.log(_numbers(moment.values), step=moment.step)

    evaluation = epoch

    def end(self, moment: Moment) -> None:
        self._run.finish()


class Mlflow:
    """Reports of epochs and evaluations as metrics of the run of MLflow that is active, or of a new one with `options`, which the end of the training ends."""

    def __init__(self, **options: Any) -> None:
        import mlflow

        self._mlflow, self._is_own = mlflow, mlflow.active_run() is None
        if self._is_own:
            mlflow.start_run(**options)

    def epoch(self, moment: Moment) -> None:
        self._mlflow.log_metrics(_numbers(moment.values), step=moment.step)

    evaluation = epoch

    def end(self, moment: Moment) -> None:
        if self._is_own:
            self._mlflow.end_run()


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in values.items() if isinstance(value, float)}
