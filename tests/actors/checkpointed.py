"""Rigs with checkpoints, whose threads work at once or when the test lets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from penstock.actors.checkpoints import fetching, taking
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import TaskStatus
from penstock.checkpoints.manifest import CheckpointManifest
from penstock.checkpoints.repository import CheckpointRepository
from penstock.common.ids import TaskId
from penstock.common.metric_names import TASK
from penstock.objects.storage import ObjectLocation
from tests.actors.rig import APPLICATION, Rig, settle

TASK_0 = TaskId(0, 0)


class Threads:
    """Does the work of other threads: at once, or when :meth:`work` is called."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.hold = False

    def executor(self, *_: object) -> Threads:
        return self

    def submit(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(call(*args))
            except BaseException as error:
                done.set_exception(error)

        self.waiting.append(run)
        if not self.hold:
            self.work()
        return done

    def work(self) -> None:
        """Do what waits."""
        while self.waiting:
            self.waiting.pop(0)()

    def shutdown(self, **_: object) -> None:
        """There are no threads."""


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    threads = Threads()
    for module in (fetching, taking):
        monkeypatch.setattr(module, "ThreadPoolExecutor", threads.executor)
    monkeypatch.setattr(fetching, "WORTH_A_DOWNLOAD", 5)
    return threads


def checkpointed(folder: Path, **config: Any) -> Rig:
    """A rig whose tasks are checkpointed at each commit of the rig."""
    return Rig(
        folder / "node 1", state_checkpoint_uri=str(folder / "objects"), state_checkpoint_interval_ms=1000, **config
    )


def repository(rig: Rig) -> CheckpointRepository:
    uri = rig.spec.config.state_checkpoint_uri
    assert uri is not None
    return CheckpointRepository(ObjectLocation(uri).open(), APPLICATION)


def stored(rig: Rig, task: TaskId = TASK_0) -> list[CheckpointManifest]:
    """Returns the checkpoints of a task, the newest first."""
    return list(repository(rig).newest_first(str(task)))


def checkpoint(rig: Rig, loop: StreamLoop) -> None:
    """Let the intervals of commits and of checkpoints pass, so that all that was processed is in a checkpoint."""
    rig.commit(loop)
    rig.clock.now_ms += 1001
    settle(loop)
    settle(loop)


def status_of(loop: StreamLoop) -> TaskStatus:
    asked = loop.status()
    if not asked.done():
        loop.step()
    (task,) = asked.result(0).tasks
    return task


def metric(loop: StreamLoop, name: str) -> float:
    found = status_of(loop).measured[TASK, name]
    assert isinstance(found, int | float)
    return found


def records(*keys: str, at: int = 1) -> Iterator[tuple[str, str, int]]:
    return ((key, "x", at) for key in keys)
