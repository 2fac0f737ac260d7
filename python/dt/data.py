"""Data of one's own: what a session takes in place of a program's pipelines, and how it goes on in the middle of an epoch."""
from __future__ import annotations

import array
import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy

from dt import _dt
from dt.program import Step


def is_array(value: Any) -> bool:
    """Whether it is one array, as `Session.step` takes it."""
    return hasattr(value, "__dlpack__") or isinstance(value, (memoryview, array.array, _dt.Memory))


class Arrays:
    """Arrays in the order of a step's inputs, which C deals into batches: in an order that depends on seed and epoch alone, so it is resumed exactly."""

    def __init__(self, arrays: Sequence[Any], batch: int, shuffle: bool) -> None:
        self.arrays, self.batch, self.shuffle = tuple(arrays), batch, shuffle


class Batches:
    """Batches as somebody gives them, one by one: lists, loaders, generators and functions that make them."""

    arrays = None

    def __init__(self, step: Step, given: Iterable[Any] | Callable[[], Iterable[Any]], alone: bool) -> None:
        self._step, self._given, self._alone = step, given, alone
        self._names = tuple(tensor.name for tensor in step.inputs)
        self._batches: Iterator[Any] = iter(())
        self._n = 0
        self.n_batches = _length(given)

    def begin(self, epoch: int, examples: int, place: str | None) -> int:
        """Go to an epoch, where `examples` were consumed; 0 where it begins anew."""
        begun, given, self._n = 0, self._given, 0
        if examples and place is not None and hasattr(given, "load_state_dict"):
            given.load_state_dict(_unpack(json.loads(place)))
            begun = examples
        self._batches = iter(given() if callable(given) and not isinstance(given, Iterable) else given)
        if examples and isinstance(given, Sequence) and self._alone:
            while begun < examples:
                begun += self._rows(self.next() or ())
        self._n = begun
        return begun

    def next(self) -> tuple[Any, ...] | None:
        """The next batch, in the order of the step's inputs; None: there is none."""
        for batch in self._batches:
            self._n += 1
            return in_order(self._step.name, self._names, batch)
        if not self._n and self._alone:
            raise ValueError(f"{self._step.name}: there are no batches: give what can be iterated over again for each epoch, not an iterator that is "
                             "used up")
        return None

    def place(self) -> str | None:
        """Where the data is, if it can say so."""
        return json.dumps(_pack(self._given.state_dict())) if hasattr(self._given, "state_dict") and hasattr(self._given, "load_state_dict") else None

    def _rows(self, batch: tuple[Any, ...]) -> int:
        rows = [len(one) for tensor, one in zip(self._step.inputs, batch) if tensor.shape and tensor.shape[0] is None]
        if not rows:
            raise ValueError(f"{self._step.name}: the batches are fewer than those of which the epoch consumed some: they are others now")
        return rows[0]


def in_order(step: str, names: tuple[str, ...], batch: Any) -> tuple[Any, ...]:
    """The arrays of a batch, in the order of the inputs of a step."""
    if isinstance(batch, Mapping):
        if len(batch) != len(names) or any(name not in batch for name in names):
            raise TypeError(f"{step}: a batch with {', '.join(map(str, batch)) or 'nothing'}: it takes {', '.join(names)}")
        return tuple([batch[name] for name in names])
    arrays = tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
    if len(arrays) != len(names):
        raise TypeError(f"{step}: {len(arrays)} arrays for {len(names)} inputs: {', '.join(names)}")
    return arrays


def take(step: Step, given: Any, batch_size: int, shuffle: bool | None, alone: bool, deals: bool) -> Arrays | Batches:
    """What was given for a step: arrays, by name or as a tuple, or batches. `deals`: whether arrays are shuffled where nobody says."""
    names = tuple(tensor.name for tensor in step.inputs)
    if is_array(given):
        given = (given,)
    if isinstance(given, Mapping) or isinstance(given, tuple) and all(map(is_array, given)):
        arrays = in_order(step.name, names, given)
        if all(tensor.shape and tensor.shape[0] is None for tensor in step.inputs):
            return Arrays(arrays, batch_size, deals if shuffle is None else shuffle)
        raise TypeError(f"{step.name}: {', '.join(str(tensor) for tensor in step.inputs if not tensor.shape or tensor.shape[0] is not None)} has no rows "
                        "that could be dealt into batches: give batches")
    if batch_size or shuffle is not None:
        raise TypeError("batch_size and shuffle are for arrays, and batches are given")
    if not isinstance(given, Iterable) and not callable(given):
        raise TypeError(f"{step.name}: {type(given).__name__} gives no batches: take arrays by name, or anything that can be iterated over")
    return Batches(step, given, alone)


def _length(given: Any) -> int:
    try:
        return len(given) if isinstance(given, Sized) else 0
    except TypeError:  # of a DataLoader whose data set has no length
        return 0


def _pack(value: Any) -> Any:
    """A state as JSON has it, with tuples, bytes and arrays as mappings of one member. Nothing in it is code."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {"items": [[_pack(key), _pack(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_pack(item) for item in value]}
    if isinstance(value, list):
        return [_pack(item) for item in value]
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if hasattr(value, "__dlpack__"):
        dense = numpy.ascontiguousarray(value)
        kind = "array" if isinstance(value, (numpy.ndarray, numpy.generic)) else "tensor"
        return {kind: [dense.dtype.str, list(numpy.shape(value)), base64.b64encode(dense.tobytes()).decode()]}
    raise TypeError(f"the state of the data holds a {type(value).__name__}, which a checkpoint cannot: numbers, texts, bytes, arrays, and lists, tuples "
                    "and mappings of them")


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    (kind, held), = value.items()
    if kind == "items":
        return {_unpack(key): _unpack(item) for key, item in held}
    if kind == "tuple":
        return tuple(_unpack(item) for item in held)
    if kind == "bytes":
        return base64.b64decode(held)
    dtype, shape, text = held
    held = numpy.frombuffer(base64.b64decode(text), dtype).reshape(shape).copy()
    if kind == "array":
        return held
    import torch

    return torch.from_numpy(held)


def missing_step(program: Mapping[str, Step], name: str) -> _dt.NotFound:
    return _dt.NotFound(f"there is no step {name!r}: the program has {', '.join(program)}")
