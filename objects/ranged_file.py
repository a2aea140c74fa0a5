"""An object as a file of which only what is read is fetched."""

from __future__ import annotations

import io

from typing_extensions import override

from penstock.objects.contracts import ObjectStore


class RangedFile(io.RawIOBase):
    """The object ``name`` of ``size`` bytes, as a file to read. Raises what :meth:`ObjectStore.read_range` raises."""

    def __init__(self, objects: ObjectStore, name: str, size: int) -> None:
        super().__init__()
        self._objects = objects
        self._name = name
        self._size = size
        self._at = 0

    @override
    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        if end <= self._at:
            return b""
        content = self._objects.read_range(self._name, self._at, end)
        self._at += len(content)
        return content

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    @override
    def tell(self) -> int:
        return self._at

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True
