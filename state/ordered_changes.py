"""What a write buffer holds that is not committed, in the order of keys, for those who scan it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from penstock.state.ordered_keys import OrderedKeys
from penstock.state.row_formats import Entry


class OrderedChanges:
    """The changes in ``dirty``, over those in ``flushed``. Keys are put in order when someone scans for the first time
    since a commit, and those that come after that when someone scans again."""

    def __init__(
        self, dirty: dict[bytes, Entry], flushed: dict[bytes, Entry], apart: Callable[[bytes, Entry], Entry]
    ) -> None:
        """``apart(key, entry)`` is what may be shown of an entry of ``flushed``."""
        self._dirty = dirty
        self._flushed = flushed
        self._apart = apart
        self._ordered: OrderedKeys | None = None
        self._ordered_dirty = 0

    def between(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool, limit: int | None
    ) -> list[tuple[bytes, Entry]]:
        """The changes of these keys as they are now; at most until ``limit`` are no deletions."""
        if self._ordered is None:
            self._ordered = OrderedKeys(self._flushed)
            self._ordered_dirty = 0
        self._order_new_keys(self._ordered)
        dirty, flushed = self._dirty, self._flushed
        changes: list[tuple[bytes, Entry]] = []
        left = -1 if limit is None else limit
        for key in self._ordered.between(from_key, to_key, reverse):
            if not left:
                break
            entry = dirty.get(key) or self._apart(key, flushed[key])
            changes.append((key, entry))
            if entry[0] is not None:
                left -= 1
        return changes

    def _order_new_keys(self, ordered: OrderedKeys) -> None:
        # Between two flushes the new keys stand last, and those that go are ordered first.
        new = islice(reversed(self._dirty), len(self._dirty) - self._ordered_dirty)
        ordered.add([key for key in new if key not in self._flushed])
        self._ordered_dirty = len(self._dirty)

    def take_back(self, key: bytes) -> None:
        """``key``, which is not in ``flushed``, is about to leave ``dirty``."""
        if self._ordered is not None:
            self._order_new_keys(self._ordered)
            self._ordered.discard((key,))
            self._ordered_dirty -= 1

    def begin_flush(self) -> None:
        """All that is in ``dirty`` is about to go over to ``flushed``."""
        if self._ordered is not None:
            self._order_new_keys(self._ordered)
        self._ordered_dirty = 0

    def forget(self) -> None:
        """What was flushed is committed: ``flushed`` is empty."""
        self._ordered = None
