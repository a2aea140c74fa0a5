"""The answers that ``penstock top`` shows, from a process of their own.

If a process has lost its Ray cluster for a minute, Ray ends it at once and without a message. The terminal would remain
as ``top`` has set it. So only this process connects to Ray; when it ends, another one takes its place.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from penstock.cluster.read_side import ApplicationStatus, FunctionView
from penstock.common.errors import ApplicationStateError

_ASK_EVERY_S = 1.0
_WAIT_S = 0.25
_AGAIN_S = 5.0
"""Time between two attempts to connect."""
Answer = tuple[str, object]
"""``heard`` with a ``Heard``; ``silent`` and ``gone`` with the reason; ``unconnected`` with the reason."""


@dataclass(frozen=True)
class Heard:
    """A status, and the first function of each operator of the program, as far as they are known."""

    status: ApplicationStatus
    functions: Mapping[str, FunctionView] = field(default_factory=dict)


class SilentError(ApplicationStateError):
    """The coordinator does not answer now, but may answer later."""


class StatusSource:
    """Asks the coordinator of an application again and again. ``talk``: the function that does, in the process."""

    def __init__(self, application: str, talk: Callable[[str, Connection], None] | None = None) -> None:
        self._application = application
        self._talk = talk or answer
        self._answered = False
        self._process: BaseProcess | None = None
        self._answers: Connection | None = None

    def __call__(self) -> Heard:
        """Returns the next answer. Raises SilentError if none comes now, ApplicationStateError if none will."""
        answers = self._answers or self._start()
        try:
            if not answers.poll(_WAIT_S):
                raise SilentError  # nothing new
            kind, content = answers.recv()
        except (EOFError, OSError):
            self.close()
            raise SilentError("the connection to Ray is lost") from None
        if isinstance(content, Heard):
            self._answered = True
            return content
        if kind == "gone" or (kind == "unconnected" and not self._answered):
            raise ApplicationStateError(str(content))
        raise SilentError(str(content))

    def _start(self) -> Connection:
        spawn = multiprocessing.get_context("spawn")
        self._answers, sends = spawn.Pipe(duplex=False)
        process = self._process = spawn.Process(target=self._talk, args=(self._application, sends), daemon=True)
        process.start()
        sends.close()
        return self._answers

    def close(self) -> None:
        """End the process."""
        if self._answers is not None:
            self._answers.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._answers = None


def answer(application: str, to: Connection) -> None:
    """Send answers until nobody takes them. Ctrl-C is for the process that shows them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):  # the lines of Ray
        os.dup2(nowhere, number)
    from penstock.cluster.ray_cluster import connections

    try:
        while True:
            try:
                connections.connect_to(application)
                break
            except ApplicationStateError as error:
                to.send(("unconnected", str(error)))
            time.sleep(_AGAIN_S)
        ask = _Question(application)
        while True:
            to.send(_asked(ask))
            time.sleep(_ASK_EVERY_S)
    except (BrokenPipeError, ConnectionResetError):
        return


class _Question:
    """Asks for the status each time, and for the functions when another version of the program is to run."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._generation: int | None = None
        self._functions: Mapping[str, FunctionView] = {}

    def __call__(self) -> Heard:
        from penstock.cluster.client import control

        status = control.require_status(self._application)
        generation = status.rollout.generation
        if generation != self._generation and (found := control.functions_of(self._application)) is not None:
            self._generation, self._functions = generation, found
        return Heard(status, self._functions)


def _asked(ask: Callable[[], Heard]) -> Answer:
    from penstock.cluster.client.control import CoordinatorSilentError

    try:
        return "heard", ask()
    except CoordinatorSilentError as error:
        return "silent", str(error)
    except ApplicationStateError as error:
        return "gone", str(error)
    except Exception as error:  # of Ray: its cluster may be ending, or be busy
        return "silent", f"{type(error).__name__}: {error}".splitlines()[0]
