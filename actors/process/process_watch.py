"""Ends the unresponsive process of an actor that Ray restarts.

Ray restarts the coordinator and the HTTP server when their processes end. It does nothing about a process that lives
but no longer responds, as after SIGSTOP, and `ray.kill` with a restart only asks the process itself. So stream
actors watch the coordinator, and the coordinator watches the HTTP server.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any, NamedTuple

import psutil
import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from structlog.stdlib import BoundLogger

from penstock.actors.process.process_lost import PROCESS_LOST_S
from penstock.common.within import within

LOOK_EVERY_S = 10.0
_ANSWER_S = 10.0
_END_S = 60.0


_SAME_S = 30.0
"""Seconds by which two creation times of a process may differ: psutil computes them from the system's clock, which may
be corrected. Another process with the same pid was created at least PROCESS_LOST_S later."""


class Process(NamedTuple):
    """The process of an actor. ``created_s`` distinguishes it from a later process with the same number: seconds since
    1970, as psutil reports them on its node."""

    node_id: str
    pid: int
    created_s: float


def own_process() -> Process:
    """Returns the process of the actor that calls it."""
    own = psutil.Process()
    return Process(str(ray.get_runtime_context().get_node_id()), own.pid, own.create_time())


class ProcessWatch:
    """Watches one actor, whose method ``process`` answers at once. ``end`` ends the process on whichever node it is."""

    def __init__(self, what: str, log: BoundLogger, end: Callable[[Any, Process], bool] | None = None) -> None:
        self._what = what
        self._log = log
        self._end = end or _end_there
        self._process: Process | None = None
        self._answered_s = 0.0

    async def look(self, actor: Any) -> None:
        """Ask ``actor`` once, and end its process if it has not answered for longer than PROCESS_LOST_S."""
        clock_s = asyncio.get_running_loop().time
        try:
            self._process = await within(_ANSWER_S, asyncio.wrap_future(_ask(actor).future()))
            self._answered_s = clock_s()
        except (TimeoutError, ActorUnavailableError):
            if self._process is not None and clock_s() - self._answered_s > PROCESS_LOST_S:
                await self._end_process(actor, self._process)
        except RayError:
            pass  # it has ended, or is being restarted: there is no process to end

    async def _end_process(self, actor: Any, process: Process) -> None:
        try:
            ended = await asyncio.to_thread(self._end, actor, process)
        except RayError as error:  # its node is lost, or cannot be reached: retried by the next look
            self._log.warning("cannot end an unresponsive process", error=repr(error), **self._named(process))
            return
        if ended:
            self._log.warning("unresponsive process ended; Ray restarts it", **self._named(process))
        self._process = None  # until the next one answers

    def _named(self, process: Process) -> dict[str, Any]:
        return {"what": self._what, "node": process.node_id, "pid": process.pid}


def _ask(actor: Any) -> Any:
    # Ray would repeat it without limit, each time with a line in the log of the driver.
    return actor.process.options(max_task_retries=0).remote()


def _end_there(actor: Any, process: Process) -> bool:
    there = NodeAffinitySchedulingStrategy(process.node_id, soft=False)
    remote: Any = ray.remote(end_if_silent).options(num_cpus=0, scheduling_strategy=there, enable_task_events=False)
    ended: bool = ray.get(remote.remote(actor, process), timeout=_END_S)
    return ended


def end_if_silent(actor: Any, process: Process) -> bool:
    """End ``process``, on its own node, unless the actor answers from there: the watching process may be cut off
    itself. Returns True if the process was ended."""
    try:
        ray.get(_ask(actor), timeout=_ANSWER_S)
    except (GetTimeoutError, ActorUnavailableError):
        return _kill(process)
    return False


def _kill(process: Process) -> bool:
    try:
        found = psutil.Process(process.pid)
        if not found.cmdline()[0].startswith("ray::") or abs(found.create_time() - process.created_s) > _SAME_S:
            return False  # another process has the pid now
        os.kill(process.pid, signal.SIGKILL)
    except (psutil.Error, ProcessLookupError, IndexError):
        return False  # it has ended
    return True
