"""Fetches files to the local disk, each while the one before it is read.

A file is fetched as a whole, so that its content cannot change while its rows are written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.common.errors import ObjectMissingError, ObjectStoreError
from penstock.objects.contracts import ObjectStore
from penstock.pipeline.ingest.contracts import FileError


class Downloads:
    """The files of these names, one after the other, as local files that live until the next is asked for."""

    def __init__(self, objects: ObjectStore, names: Sequence[str]) -> None:
        self._objects = objects
        self._names = iter(names)
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-ingest-")
        self._pool = ThreadPoolExecutor(1, "download")
        self._number = 0
        self._coming: Future[Path] | None = None

    def __enter__(self) -> Self:
        self._fetch_next()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def is_ready(self) -> bool:
        """Returns True if the next file is there, or cannot be fetched."""
        return self._coming is None or self._coming.done()

    @contextmanager
    def next(self) -> Iterator[Path]:
        """Yields the next file; deletes it at the end. Raises FileError if it is gone, and ObjectStoreError."""
        assert self._coming is not None
        try:
            local = self._coming.result()
        except ObjectMissingError as error:
            raise FileError(f"it is gone: {error}") from None
        finally:
            self._fetch_next()
        try:
            yield local
        finally:
            local.unlink()

    def _fetch_next(self) -> None:
        name = next(self._names, None)
        self._coming = None if name is None else self._pool.submit(self._fetch, name)

    def _fetch(self, name: str) -> Path:
        self._number += 1
        local = Path(self._folder.name) / f"{self._number}.file"
        try:
            self._objects.download(name, local)
        except OSError as error:
            raise ObjectStoreError(
                f"{name!r} cannot be kept in {self._folder.name} while it is read: {error}"
            ) from error
        return local
