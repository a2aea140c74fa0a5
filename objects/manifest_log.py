"""A log of manifests: numbered objects, each created only if absent, so that two writers cannot both append one."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.common.errors import ObjectMissingError
from penstock.objects.contracts import ObjectStore

_DIGITS = 20
_SUFFIX = ".json"


class ManifestLog:
    """The manifests below ``prefix`` (which ends with ``/``) of a store, numbered from 1 in the order of their names.

    A number may be missing, because manifests that nothing needs any more are deleted.
    """

    def __init__(self, objects: ObjectStore, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix

    def append(self, number: int, content: bytes) -> None:
        """Create manifest ``number``. Raises ObjectExistsError if another writer has created it."""
        self._objects.create(self.name(number), content)

    def numbers(self, after: int = 0) -> list[int]:
        """Returns the numbers of all manifests above ``after``, in order."""
        listed = self._objects.list(self._prefix, self.name(after) if after else "")
        names = (info.name.removeprefix(self._prefix) for info in listed)
        return sorted(int(name.removesuffix(_SUFFIX)) for name in names if _is_manifest(name))

    def read(self, number: int) -> bytes:
        """Returns the content of manifest ``number``. Raises ObjectMissingError if there is none."""
        return self._objects.read(self.name(number))

    def entries(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yields number and content of each manifest above ``after``, in order; passes over those deleted meanwhile."""
        for number in self.numbers(after):
            try:
                yield number, self.read(number)
            except ObjectMissingError:
                continue

    def name(self, number: int) -> str:
        """Returns the name of the object of manifest ``number``."""
        return f"{self._prefix}{number:0{_DIGITS}}{_SUFFIX}"


def _is_manifest(name: str) -> bool:
    return name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX).isdigit()
