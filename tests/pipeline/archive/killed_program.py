"""Archives topics in a process of its own. One request to object storage kills it, a worker, or an executor.

A module of its own: Spark's workers import it. ``python -m tests.pipeline.archive.killed_program BROKER FOLDER TOPICS
MASTER driver|worker|executor PHASE NTH before|after``.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from typing_extensions import override

from penstock.objects.contracts import ObjectStore
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.opening import ArchiveTask, check, open_run
from penstock.pipeline.archive.run import ArchiveRun
from penstock.pipeline.archive.spark_tasks import SparkTasks
from penstock.pipeline.spark.spark_session import spark_session
from tests.pipeline.archive.archiving import clients_of

DONE = "killed"
"""Ending of the name of the file that is made beside the archive before the one kill."""
BEGINS, COMMITS, WRITES = "begins a generation", "commits", "writes a file"
PHASES = {
    "driver": ("checks the storage", "reads the log", BEGINS, "opens the run", "cleans", COMMITS),
    "worker": (WRITES,),
}
"""By process: the phases of a run in which it sends requests to object storage."""


def phase_of(operation: str, given: tuple[Any, ...]) -> str:
    """Returns the phase of a run that a request belongs to."""
    name = str(given[0]) if given else ""
    if name.startswith(".penstock-probe/"):
        return "checks the storage"
    if operation == "create":
        if name.startswith("topics/"):
            return BEGINS
        if "/manifests/" in name:
            return "opens the run" if b'"opened"' in given[1] else COMMITS
        return WRITES
    return "cleans" if operation in ("info", "delete") else "reads the log"


@dataclass(frozen=True)
class KillingLocation(ObjectLocation):
    """A folder in which the n-th request of a phase kills the process that sends it, or its executor."""

    victim: str = ""
    phase: str = ""
    nth: int = 1
    before: bool = True
    driver: int = 0

    @override
    def open(self) -> ObjectStore:
        found: Any = _Killing(super().open(), self)
        return found  # type: ignore[no-any-return]


class _Killing:
    def __init__(self, objects: ObjectStore, location: KillingLocation) -> None:
        self._objects = objects
        self._location = location
        self._requests = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._objects, name)
        if not callable(found):
            return found

        def call(*given: Any) -> Any:
            self._requests += phase_of(name, given) == self._location.phase
            due = phase_of(name, given) == self._location.phase and self._requests == self._location.nth
            if due and self._location.before:
                self._kill()
            answer = found(*given)
            if due:
                self._kill()
            return answer

        return call

    def _kill(self) -> None:
        victim, me = self._location.victim, psutil.Process()
        if (victim == "driver") != (me.pid == self._location.driver):
            return
        try:
            Path(f"{self._location.url}-{DONE}").touch(exist_ok=False)
        except FileExistsError:
            return
        if victim == "executor":
            me = next(each for each in me.parents() if "java" in each.name())
        me.kill()


def main(broker: str, folder: str, topics: str, master: str, victim: str, phase: str, nth: str, when: str) -> None:
    """Archive all that is there now, in small commits and files."""
    before = when == "before"
    location = KillingLocation(folder, victim=victim, phase=phase, nth=int(nth), before=before, driver=os.getpid())
    task = ArchiveTask(topics.split(","), location, clients_of(broker), records_per_commit=5_000, file_bytes=1)
    objects = location.open()
    check(task, objects)
    with spark_session(master, "killed-archive") as spark:
        opened = open_run(task, objects)
        ArchiveRun(task, opened, SparkTasks(spark), lambda batch: print(batch, flush=True)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
