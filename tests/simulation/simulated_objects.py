"""Object storage in virtual time: each request takes its time, and some have no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from typing_extensions import override

from penstock.common.errors import ObjectStoreError
from penstock.objects.contracts import ObjectInfo
from penstock.objects.memory import MemoryObjects
from tests.simulation.simulated_threads import wait_in_thread

URL = "s3://simulated"
LONGEST_UPLOAD_MS, DELETION_DELAY_MS = 30_000, 45_000
"""In place of three quarters of an hour, and an hour: a run lasts minutes."""
DELETE_EACH_S = 15.0


@dataclass(frozen=True)
class StorageSetting:
    """``longest_call_s``: of a request. ``lost``: share of the requests without an answer; half of them were carried
    out. ``worth``: least number of offsets that a checkpoint must save to be downloaded."""

    longest_call_s: float
    lost: float
    worth: int


def drawn_storage(rng: Random) -> StorageSetting:
    """A storage, which may be so slow that most uploads give up."""
    return StorageSetting(rng.choice([0.05, 1.0, 10.0]), rng.choice([0.0, 0.0, 0.05, 0.2]), rng.choice([1, 1, 30]))


class SimulatedObjects(MemoryObjects):
    """The storage of one run. Requests of the thread of the event loop, which checks it, are answered at once."""

    def __init__(self, setting: StorageSetting, rng: Random, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.setting = setting
        self._rng = rng
        self.is_calm = False
        self.downloads = 0

    def _asked(self, call: Callable[[], Any]) -> Any:
        longest_s = min(self.setting.longest_call_s, 0.05) if self.is_calm else self.setting.longest_call_s
        wait_in_thread(self._rng.uniform(0, longest_s))
        lost = not self.is_calm and self._rng.random() < self.setting.lost
        if lost and self._rng.random() < 0.5:
            raise ObjectStoreError("the request is lost")
        answer = call()
        wait_in_thread(self._rng.uniform(0, longest_s))
        if lost:
            raise ObjectStoreError("the answer is lost")
        return answer

    @override
    def read(self, name: str) -> bytes:
        content: bytes = self._asked(lambda: super(SimulatedObjects, self).read(name))
        return content

    @override
    def create(self, name: str, content: bytes) -> None:
        self._asked(lambda: super(SimulatedObjects, self).create(name, content))

    @override
    def upload(self, name: str, file: Path) -> None:
        content = file.read_bytes()
        self._asked(lambda: MemoryObjects.put(self, name, content))

    @override
    def download(self, name: str, file: Path) -> None:
        self.downloads += 1
        file.write_bytes(self.read(name))

    @override
    def info(self, name: str) -> ObjectInfo | None:
        found: ObjectInfo | None = self._asked(lambda: super(SimulatedObjects, self).info(name))
        return found

    @override
    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        found: Iterator[ObjectInfo] = self._asked(lambda: super(SimulatedObjects, self).list(prefix, after))
        return found

    @override
    def delete(self, names: Iterable[str]) -> None:
        for name in names:  # one after the other, as a folder does: a deleter may end in between
            self._asked(partial(MemoryObjects.delete, self, [name]))
