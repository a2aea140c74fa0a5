"""Keys in groups, for stores that are scanned group by group: a new key costs the same however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class GroupedKeys:
    """A set of keys, each in the group whose name ``group_of`` makes of its bytes."""

    def __init__(self, group_of: Callable[[bytes], bytes], keys: Iterable[bytes]) -> None:
        self._group_of = group_of
        self._groups: dict[bytes, dict[bytes, None]] = {}
        self.add(keys)

    def add(self, keys: Iterable[bytes]) -> None:
        """Put ``keys`` in, each once."""
        group_of, groups = self._group_of, self._groups
        for key in keys:
            name = group_of(key)
            if (group := groups.get(name)) is None:
                groups[name] = {key: None}
            else:
                group[key] = None

    def discard(self, key: bytes) -> bool:
        """Remove ``key``. Returns True if it was in the set."""
        name = self._group_of(key)
        group = self._groups.get(name, {})
        if key not in group:
            return False
        del group[key]
        if not group:
            del self._groups[name]
        return True

    def of(self, name: bytes) -> list[bytes]:
        """The keys of a group, in order."""
        if name not in self._groups:
            return []
        keys = sorted(self._groups[name])
        self._groups[name] = dict.fromkeys(keys)  # sorting them again, with a few more, is then fast
        return keys
