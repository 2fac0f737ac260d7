"""Processes: those that a launcher of MPI started together, for sessions that they share."""
from __future__ import annotations

import logging

from dt import _dt


class Processes(_dt.Processes):
    """The processes of a run, which a launcher of MPI has started: `mpirun -n 4 python train.py`. A process that nobody launched is a run of one.

        with dt.Processes() as processes:
            session = program.session(replicas=8, processes=processes)
            for images, labels in batches:  # the same in all processes; each gives its rows
                session.step("train", image=images[session.rows], label=labels[session.rows])
            session.close()

    All processes make the same calls, in the same order: to create a session, `step`, `train`, `evaluate`, to write variables and launch values, `save`,
    `load`. They have the same variables and reports, with the bits of one process; process 0 writes files and shows bars. A mistake in the arguments of
    one raises in all; what fails in one while it is at work ends the run of all with `dt.Aborted`, and so does an exception that leaves the `with`.

    - `deadline`: how many seconds the others wait for a process that does not get on; 0: ten minutes.
    """

    def __init__(self, deadline: float = 0) -> None:
        note = self._describe()[2]
        if note is not None:
            logging.getLogger("dt").warning(note)

    @property
    def number(self) -> int:
        """Of this process, from 0."""
        return self._describe()[0]

    @property
    def count(self) -> int:
        """How many there are."""
        return self._describe()[1]

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *rest: object) -> None:
        if kind is not None:
            self.abort(f"{kind.__name__}: {error}")
        else:
            self.close()
