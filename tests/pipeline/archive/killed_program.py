"""Archives topics in a process of its own, in which one request to object storage kills a process.

A module of its own: Spark's workers import it. ``python -m tests.pipeline.archive.killed_program BROKER FOLDER TOPICS
driver|worker|executor REQUEST MASTER``.
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
"""The file that is made beside the archive when the kill has been carried out: there is one."""


@dataclass(frozen=True)
class KillingLocation(ObjectLocation):
    """A folder in which the n-th request of a process kills it, or its executor."""

    who: str = ""
    request: int = 0
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
            self._requests += 1
            if self._requests == self._location.request:
                self._kill()
            return found(*given)

        return call

    def _kill(self) -> None:
        who, me = self._location.who, psutil.Process()
        if (who == "driver") != (me.pid == self._location.driver):
            return
        try:
            Path(f"{self._location.url}-{DONE}").touch(exist_ok=False)
        except FileExistsError:
            return
        if who == "executor":
            me = next(each for each in me.parents() if "java" in each.name())
        me.kill()


def main(broker: str, folder: str, topics: str, who: str, request: str, master: str) -> None:
    """Archive all that is there now, in small commits and files."""
    location = KillingLocation(folder, who=who, request=int(request), driver=os.getpid())
    task = ArchiveTask(topics.split(","), location, clients_of(broker), records_per_commit=15_000, file_bytes=1)
    objects = location.open()
    check(task, objects)
    with spark_session(master, "killed-archive") as spark:
        opened = open_run(task, objects)
        ArchiveRun(task, opened, SparkTasks(spark), lambda batch: print(batch, flush=True)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
