"""The uncommitted changes of a write buffer, in the order of keys, for scans of all of them or of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice

from penstock.state.rows.row_formats import Entry
from penstock.state.write_buffer.grouped_keys import GroupedKeys
from penstock.state.write_buffer.ordered_keys import OrderedKeys


class OrderedChanges:
    """The changes in ``dirty``, over those in ``flushed``. The first scan since a commit puts the keys in order; each
    later scan adds those that came after the one before it."""

    def __init__(
        self, dirty: dict[bytes, Entry], flushed: dict[bytes, Entry], apart: Callable[[bytes, Entry], Entry]
    ) -> None:
        """``apart(key, entry)`` returns what may be shown of an entry of ``flushed``."""
        self._dirty = dirty
        self._flushed = flushed
        self._apart = apart
        self._ordered: OrderedKeys | None = None
        self._grouped: GroupedKeys | None = None
        self._placed_dirty = 0

    def between(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool, limit: int | None
    ) -> list[tuple[bytes, Entry]]:
        """The changes of these keys as they are now; at most up to the ``limit``-th that is no deletion."""
        self._place_new_keys()
        if self._ordered is None:
            self._ordered = OrderedKeys(self._keys())
        return self._as_they_are(self._ordered.between(from_key, to_key, reverse), limit)

    def of_group(self, name: bytes, group_of: Callable[[bytes], bytes]) -> list[tuple[bytes, Entry]]:
        """The changes of the keys of group ``name``, in order; ``group_of`` is the same in every call. They are found
        without all others being put in order."""
        self._place_new_keys()
        if self._grouped is None:
            self._grouped = GroupedKeys(group_of, self._keys())
        return self._as_they_are(self._grouped.of(name), None)

    def _keys(self) -> Iterable[bytes]:
        return chain(self._flushed, (key for key in self._dirty if key not in self._flushed))

    def _as_they_are(self, keys: Iterable[bytes], limit: int | None) -> list[tuple[bytes, Entry]]:
        dirty, flushed = self._dirty, self._flushed
        changes: list[tuple[bytes, Entry]] = []
        left = -1 if limit is None else limit
        for key in keys:
            if not left:
                break
            entry = dirty.get(key) or self._apart(key, flushed[key])
            changes.append((key, entry))
            if entry[0] is not None:
                left -= 1
        return changes

    def _place_new_keys(self) -> None:
        if self._ordered is not None or self._grouped is not None:
            # Between two flushes the new keys are last.
            last = islice(reversed(self._dirty), len(self._dirty) - self._placed_dirty)
            new = [key for key in last if key not in self._flushed]
            if self._ordered is not None:
                self._ordered.add(new)
            if self._grouped is not None:
                self._grouped.add(new)
        self._placed_dirty = len(self._dirty)

    def take_back(self, key: bytes) -> None:
        """Remove ``key``, which is not in ``flushed`` and is about to leave ``dirty``."""
        # Both, if there are both, have all keys that were placed.
        ordered = self._ordered is not None and self._ordered.discard((key,)) > 0
        grouped = self._grouped is not None and self._grouped.discard(key)
        if ordered or grouped:
            self._placed_dirty -= 1

    def begin_flush(self) -> None:
        """Place new keys: all that is in ``dirty`` is about to move to ``flushed``."""
        self._place_new_keys()
        self._placed_dirty = 0

    def forget(self) -> None:
        """Forget the order: all that was flushed is committed, and ``flushed`` is empty."""
        self._ordered = self._grouped = None
        self._placed_dirty = 0
