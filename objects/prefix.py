"""The objects below a prefix of a storage, as a storage of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from penstock.objects.contracts import ObjectInfo, ObjectStore


class ObjectsBelow:
    """The objects of ``objects`` whose names begin with ``prefix``, which ends with ``/``. Errors have whole names."""

    def __init__(self, objects: ObjectStore, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix

    @property
    def url(self) -> str:
        """The URL as messages show it."""
        return f"{self._objects.url.rstrip('/')}/{self._prefix}"

    def read(self, name: str) -> bytes:
        """Returns the content of an object."""
        return self._objects.read(self._prefix + name)

    def read_range(self, name: str, begin: int, end: int) -> bytes:
        """Returns some of the bytes of an object."""
        return self._objects.read_range(self._prefix + name, begin, end)

    def create(self, name: str, content: bytes) -> None:
        """Write an object that must not exist yet."""
        self._objects.create(self._prefix + name, content)

    def put(self, name: str, content: bytes) -> None:
        """Write an object, over an earlier one if there is one."""
        self._objects.put(self._prefix + name, content)

    def upload(self, name: str, file: Path) -> None:
        """Write the content of a local file as an object."""
        self._objects.upload(self._prefix + name, file)

    def download(self, name: str, file: Path) -> None:
        """Write the content of an object to a local file."""
        self._objects.download(self._prefix + name, file)

    def info(self, name: str) -> ObjectInfo | None:
        """Returns size and time of an object; None if there is none of that name."""
        found = self._objects.info(self._prefix + name)
        return None if found is None else self._relative(found)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """Yields all objects below ``prefix`` after ``after``, in the order of their names."""
        found = self._objects.list(self._prefix + prefix, self._prefix + after if after else "")
        return map(self._relative, found)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects. A name without an object is no error."""
        self._objects.delete([self._prefix + name for name in names])

    def _relative(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, name=info.name.removeprefix(self._prefix))
