"""Trainings: a report for each epoch, bars while they run, and all of it as a table with curves."""
from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dt import html

if TYPE_CHECKING:
    from dt.callbacks import Callbacks
    from dt.session import Session

log = logging.getLogger("dt")


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Those of the reports that are one number each."""
    return {name: value for name, value in values.items() if isinstance(value, float)}


class Report(Mapping[str, Any]):
    """What an epoch reported, by name: `report["loss"]` is of training, `report["evaluate.loss"]` of the evaluation after it.

    A report is a float, or a NumPy array where it has a shape, as a confusion matrix has.
    """

    epoch: int
    """From 1."""
    step: int
    """Training steps done, in all."""
    examples: int
    """That this epoch trained on."""
    seconds: float
    """That its training took."""
    examples_per_second: float
    """Without the first step; 0: there was no other."""
    data_wait: float
    """Part of `seconds` that was spent waiting for data, 0 to 1."""

    def __init__(self, values: Mapping[str, Any], *, epoch: int, step: int, examples: int, seconds: float, examples_per_second: float,
                 data_wait: float) -> None:
        self._values = dict(values)
        self.epoch, self.step, self.examples = epoch, step, examples
        self.seconds, self.examples_per_second, self.data_wait = seconds, examples_per_second, data_wait

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        values = "".join(f"  {name} {html.number(value)}" for name, value in numbers(self).items())
        return f"epoch {self.epoch}  {self.examples:,} examples  {self.seconds:.2f} s{values}"


class Gathered(Report):
    """What steps of a loop of one's own report together, as an epoch of `train` does: a context manager, whose reports are running totals within it and
    stay as they are after it. `report["loss"]` of a single step, of several `report["critic.loss"]`."""

    def __init__(self, session: Session, steps: Sequence[str], epoch: int) -> None:
        super().__init__({}, epoch=epoch, step=session.n_steps, examples=0, seconds=0, examples_per_second=0, data_wait=0)
        self._session, self._steps = session, steps
        self._began: float | None = None

    def _read(self) -> None:
        if self._began is None:
            return
        several = len(self._steps) > 1
        for step in self._steps:
            if self._session._n_examples(step) > 0:
                self._values.update((f"{step}.{name}" if several else name, value) for name, value in self._session._totals(step).items())
        self.step, self.seconds = self._session.n_steps, time.perf_counter() - self._began
        self.examples = max(self._session._n_examples(step) for step in self._steps)
        self.examples_per_second = self.examples / self.seconds if self.seconds else 0

    def __getitem__(self, name: str) -> Any:
        self._read()
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        self._read()
        return super().__iter__()

    def __len__(self) -> int:
        self._read()
        return super().__len__()

    def __enter__(self) -> Gathered:
        for step in self._steps:
            self._session._reset_totals(step)
        self._began = time.perf_counter()
        return self

    def __exit__(self, *raised: object) -> None:
        self._read()
        self._began = None


class Training(Iterator[Report]):
    """A training under way: each `next` trains an epoch and gives its report. In a notebook it shows itself as a table with curves."""

    def __init__(self, reports: Iterator[Report]) -> None:
        self._next = reports
        self.reports: list[Report] = []
        """Those so far."""

    def __next__(self) -> Report:
        self.reports.append(next(self._next))
        return self.reports[-1]

    def run(self) -> Training:
        """Train to the end; `reports` has what each epoch said."""
        for _ in self:
            pass
        return self

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.reports)) or "<dt.Training that has not begun>"

    def _repr_html_(self) -> str:
        return html.training(self.reports)


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


class Bars:
    """A bar of tqdm's for each pass over the data, in a terminal or a notebook; none where tqdm is not installed or nobody watches."""

    def __init__(self, progress: bool | None) -> None:
        self._create = self._find(progress)
        self._bar: Any = None
        self._shown: tuple[str, int] | None = None

    @staticmethod
    def _find(progress: bool | None) -> Callable[..., Any] | None:
        if progress is False or progress is None and not (sys.stderr is not None and sys.stderr.isatty() or _in_notebook()):
            return None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            if progress:
                raise
            return None
        return tqdm  # type: ignore[no-any-return]

    def show(self, step: str, epoch: int, epochs: int, steps: int, n_steps: int, values: Mapping[str, Any]) -> None:
        """Where a pass is: `steps` of `n_steps`, 0 where that is not known. `epoch` 0: it is of none."""
        if self._create is None:
            return
        if self._shown != (step, epoch):
            self.close()
            of = f" {epoch}/{epochs}" if epochs else f" {epoch}" if epoch else ""
            self._bar = self._create(total=n_steps or None, desc=f"{step}{of}", unit=" steps")
            self._shown = (step, epoch)
        self._bar.set_postfix({name: html.number(value) for name, value in numbers(values).items()}, refresh=False)
        self._bar.update(steps - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.refresh()
            self._bar.close()
        self._bar = self._shown = None


def remark(event: Mapping[str, Any]) -> None:
    """Notes, warnings and checkpoints go to the logger "dt"."""
    if event["kind"] == "remark":
        log.log(logging.WARNING if event["what"] == "warning" else logging.INFO, "%s", event["text"])
    elif event["kind"] == "checkpoint":
        log.info("checkpoint %s", event["path"])


class Epochs:
    """What the runtime tells of a run, put together into reports."""

    def __init__(self, step: str, progress: bool | None, callbacks: Callbacks | None = None) -> None:
        self._step, self._callbacks = step, callbacks
        self.bars = Bars(progress)
        self._trained: Mapping[str, Any] | None = None
        self._values: dict[str, Any] = {}

    def __call__(self, event: Mapping[str, Any]) -> bool:
        remark(event)
        if event["kind"] in ("progress", "epoch"):
            self.bars.show(event["step"], event["epoch"], event["epochs"], event["steps"], event["steps_per_epoch"], event["values"])
        if event["kind"] == "epoch":
            self.bars.close()
            self._add(event)
        return self._callbacks is not None and self._callbacks.hear(event, self._step)

    def _add(self, event: Mapping[str, Any]) -> None:
        if event["step"] == self._step:
            self._trained = event
            self._values.update(event["values"])
        else:
            self._values.update((f"{event['step']}.{name}", value) for name, value in event["values"].items())

    def take(self, step: int) -> Report | None:
        """The report of the epoch that ended last, after `step` training steps; None where none did."""
        event, values, self._trained, self._values = self._trained, self._values, None, {}
        if event is None:
            return None
        return Report(values, epoch=event["epoch"], step=step, examples=event["examples"], seconds=event["seconds"],
                      examples_per_second=event["examples_per_second"], data_wait=event["data_wait"])
