"""Keeps a second start of an application, with the same state directory, from taking the place of the one that runs.

Two Ray clusters that share a state directory have the same process id, and so the same static member of the group and
the same transactional ids: the newcomer would fence the other, which ends in ERROR. So the coordinator holds a lock in
the directory while it works. A cluster with a directory of its own has a process id of its own: it joins the group as
another static member and shares the tasks, as another instance of Kafka Streams does, and needs no lock.
"""

from __future__ import annotations

import time
from pathlib import Path

import ray

from penstock.actors.task_host.state_home import RUNS_IN_FILE
from penstock.common.errors import ApplicationStateError, ConfigError, StateStoreLockedError
from penstock.common.files import write_whole
from penstock.common.log import logger
from penstock.state.disk.directory_lock import LOCK, DirectoryLock

ENDS_WITHIN_S = 15.0
"""A coordinator that was just ended may hold it a little longer."""
_LOOK_AGAIN_S = 0.2
_NAME = "coordinator"


class RunningLock:
    """The lock of the application whose state directory is ``home``; ``where`` names this Ray cluster."""

    def __init__(self, home: Path, where: str) -> None:
        self._home = home
        self._where = where
        self._lock: DirectoryLock | None = None

    @property
    def held(self) -> bool:
        """True if this process has the lock."""
        return self._lock is not None

    def take(self, within_s: float | None = None) -> None:
        """Take the lock. Raises ApplicationStateError if another process still has it after ``within_s`` (by default
        ENDS_WITHIN_S), and ConfigError if the directory cannot be written. Idempotent."""
        deadline = time.monotonic() + (ENDS_WITHIN_S if within_s is None else within_s)
        while self._lock is None:
            try:
                self._lock = DirectoryLock(self._home / _NAME)
                write_whole(self._home / RUNS_IN_FILE, self._where)
            except StateStoreLockedError:
                if time.monotonic() >= deadline:
                    raise ApplicationStateError(self._runs_elsewhere()) from None
                time.sleep(_LOOK_AGAIN_S)
            except OSError as error:
                raise ConfigError(
                    f"state.dir {str(self._home.parent)!r} cannot be written by the coordinator: {error}. Give the "
                    "user that Ray runs as a directory that it may write, on each node"
                ) from error

    def try_again(self) -> None:
        """Take the lock if it is free by now. Raises ConfigError if the directory cannot be written."""
        try:
            self.take(within_s=0.0)
        except ApplicationStateError:
            return  # the application that this one fences has not ended yet

    def release(self) -> None:
        """Idempotent."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _runs_elsewhere(self) -> str:
        try:
            where = (self._home / RUNS_IN_FILE).read_text()
        except OSError:
            where = "another Ray cluster"
        application_id = self._home.name
        return (
            f"application {application_id!r} already runs in {where}, with the same state directory {self._home}: a "
            "second start would take its static member in the consumer group, and end it. Stop it there first "
            f"('penstock stop {application_id}'); give this one another application.id or state.dir; or take over by "
            "--take-over (start(take_over=True)), which ends the other in ERROR"
        )


def ray_cluster_in_words() -> str:
    """Returns the words that name the Ray cluster of this process."""
    return f"the Ray cluster at {ray.get_runtime_context().gcs_address}"


def refuse_running_elsewhere(home: Path) -> None:
    """Raise ApplicationStateError while another process of this machine holds the lock of ``home``.

    If this process cannot write the directory, it raises nothing. The coordinator then takes the lock on its own node.
    """
    lock = RunningLock(home, "")
    try:
        if not (home / f"{_NAME}{LOCK}").exists():
            return  # if this process made it, it would belong to another user than Ray's, perhaps
        lock.take()
        (home / RUNS_IN_FILE).unlink(missing_ok=True)
    except (ConfigError, OSError) as error:
        logger(__name__).info("cannot see if the application runs elsewhere", directory=str(home), error=str(error))
    finally:
        lock.release()
