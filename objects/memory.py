"""Object storage in memory, for simulations and tests: passes the same conformance tests as the real one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from penstock.common.errors import ObjectExistsError, ObjectMissingError
from penstock.objects.contracts import ObjectInfo


class MemoryObjects:
    """Objects in the memory of this process. ``now_ms`` is the clock of the storage."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The URL as messages show it."""
        return "memory://"

    def read(self, name: str) -> bytes:
        """Returns the content of an object."""
        with self._lock:
            found = self._objects.get(name)
        if found is None:
            raise ObjectMissingError(f"there is no object {name!r} in {self.url}")
        return found[0]

    def read_range(self, name: str, begin: int, end: int) -> bytes:
        """Returns the bytes from ``begin`` up to ``end`` of an object."""
        return self.read(name)[begin:end]

    def create(self, name: str, content: bytes) -> None:
        """Write an object that must not exist yet."""
        with self._lock:
            if name in self._objects:
                raise ObjectExistsError(f"object {name!r} is in {self.url} already")
            self._objects[name] = (bytes(content), self._now_ms())

    def put(self, name: str, content: bytes) -> None:
        """Write an object, over an earlier one if there is one."""
        with self._lock:
            self._objects[name] = (bytes(content), self._now_ms())

    def upload(self, name: str, file: Path) -> None:
        """Write the content of a local file as an object."""
        self.put(name, file.read_bytes())

    def download(self, name: str, file: Path) -> None:
        """Write the content of an object to a local file."""
        file.write_bytes(self.read(name))

    def info(self, name: str) -> ObjectInfo | None:
        """Returns size and time of an object; None if there is none of that name."""
        with self._lock:
            found = self._objects.get(name)
        return None if found is None else ObjectInfo(name, len(found[0]), found[1])

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """Yields all objects below ``prefix`` after ``after``, in the order of their names."""
        with self._lock:
            found = sorted(self._objects.items())
        return (
            ObjectInfo(name, len(content), modified)
            for name, (content, modified) in found
            if name.startswith(prefix) and name > after
        )

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects. A name without an object is no error."""
        with self._lock:
            for name in names:
                self._objects.pop(name, None)
