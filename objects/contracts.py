"""The contract of object storage: named objects below one URL, written whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class ObjectInfo:
    """One object of a listing: its name, its size in bytes, and the time (ms) at which the storage took it."""

    name: str
    size: int
    modified_ms: int


class ObjectStore(Protocol):
    """Objects below one URL. Names are relative to it, with ``/`` between their parts.

    An object becomes visible whole or not at all. Every call may raise ObjectStoreError after the client's retries.
    All calls may come from several threads and processes at once.
    """

    @property
    def url(self) -> str:
        """The URL as messages show it: without credentials."""

    def read(self, name: str) -> bytes:
        """Returns the content of an object. Raises ObjectMissingError if there is none of that name."""

    def read_range(self, name: str, begin: int, end: int) -> bytes:
        """Returns the bytes from ``begin`` up to, but not including, ``end`` of an object, or up to its end. ``begin``
        must be less than the object's size. Raises ObjectMissingError if there is none of that name."""

    def create(self, name: str, content: bytes) -> None:
        """Write an object that must not exist yet. Raises ObjectExistsError if it does: of several writers at once,
        exactly one succeeds."""

    def put(self, name: str, content: bytes) -> None:
        """Write an object, over an earlier one of that name if there is one."""

    def upload(self, name: str, file: Path) -> None:
        """Write the content of a local file as an object, over an earlier one of that name if there is one."""

    def download(self, name: str, file: Path) -> None:
        """Write the content of an object to a local file, which appears whole or not at all. Raises ObjectMissingError
        if there is no object of that name, and OSError if the file cannot be written."""

    def info(self, name: str) -> ObjectInfo | None:
        """Returns size and time of an object; None if there is none of that name."""

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """Yields all objects whose names begin with ``prefix``, in the order of their names; those whose names come
        after ``after`` only, if it is given. ``prefix`` ends in the middle of no part: it is empty or ends with ``/``.
        """

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects. A name without an object is no error."""
