"""The behaviour of window and session stores, written as plainly as possible: dictionaries, and no thought of speed.

Rows are known by their keys in the changelog. Nothing here is shared with the stores except the bytes of these keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.common.windows import Window

Value = str | None


class Shape(NamedTuple):
    """The kind and settings of a store."""

    retention_ms: int
    caching: bool = False
    sessions: bool = False
    timestamped: bool = False
    retain_duplicates: bool = False
    window_size_ms: int = 10


class Key(NamedTuple):
    """A row: ``time`` is the window's start, or the session's end; ``rest`` the sequence number, or its start."""

    key: str
    time: int
    rest: int

    def data(self, sessions: bool) -> bytes:
        return self.key.encode() + self.time.to_bytes(8, "big") + self.rest.to_bytes(8 if sessions else 4, "big")

    def window(self, shape: Shape) -> Window:
        if shape.sessions:
            return Window(self.rest, self.time)
        return Window(self.time, self.time + shape.window_size_ms)


class Put(NamedTuple):
    """The last put: a value or None, and the record's timestamp."""

    value: Value
    timestamp: int


class Flushed(NamedTuple):
    """A call of a flush listener."""

    key: bytes
    window: Window
    new: Value
    old: Value
    timestamp: int


class Snapshot(NamedTuple):
    """All that one commit takes."""

    rows: dict[Key, Put]
    waiting: dict[Key, Put]
    time: int
    sequence: int
    offset: int


@dataclass
class Model:
    """One store of one task, through commits, crashes and restores."""

    shape: Shape
    survives: bool
    """True if what is committed outlives a crash without the changelog, as in RocksDB."""
    rows: dict[Key, Put] = field(default_factory=dict)
    time: int = -1
    sequence: int = 0
    dropped: int = 0
    changelog: list[tuple[Key, Put]] = field(default_factory=list)
    heard: list[Flushed] = field(default_factory=list)
    waiting: dict[Key, Put] = field(default_factory=dict)
    frozen: Snapshot | None = None
    """The snapshot that the commit under way takes."""
    committed: dict[Key, Put] = field(default_factory=dict)
    committed_time: int = -1
    committed_sequence: int = 0
    committed_offset: int = 0

    # ---- time ----

    @property
    def interval_ms(self) -> int:
        return max(self.shape.retention_ms // 2, 60_000)

    def segment(self, time: int) -> int:
        return time // self.interval_ms

    def expired(self, time: int, now: int) -> bool:
        """Returns True if the segment of ``time`` is gone."""
        return now > self.shape.retention_ms and self.segment(time) < self.segment(now - self.shape.retention_ms)

    def visible(self, committed: bool = False) -> dict[Key, Put]:
        rows, now = (self.committed, self.committed_time) if committed else (self.rows, self.time)
        return {key: put for key, put in rows.items() if key.time > now - self.shape.retention_ms}

    # ---- changes ----

    def put(self, key: str, time: int, rest: int, value: Value, timestamp: int, counted: bool = True) -> None:
        """Puts a row. ``counted``: True if it is counted when it is too late, as a put is and a removal is not."""
        if self.shape.retain_duplicates:
            if value is None:
                return
            self.sequence += 1
            rest = self.sequence
        self.time = max(self.time, time)
        row, put = Key(key, time, rest), Put(value, timestamp)
        if self.expired(time, self.time):
            self.dropped += counted  # and written to the changelog all the same
        else:
            self._set(self.rows, row, put)
        if self.shape.caching:
            self.waiting.pop(row, None)
            self.waiting[row] = put
        else:
            self.changelog.append((row, put))

    @staticmethod
    def _set(rows: dict[Key, Put], key: Key, put: Put) -> None:
        if put.value is None:
            rows.pop(key, None)
        else:
            rows[key] = put

    def freeze(self) -> Snapshot:
        """Takes the snapshot of a commit: later changes are of the next commit."""
        rows = {key: put for key, put in self.rows.items() if not self.expired(key.time, self.time)}
        self.frozen = Snapshot(rows, self.waiting, self.time, self.sequence, len(self.changelog))
        self.rows, self.waiting = dict(rows), {}
        return self.frozen

    def flush(self) -> None:
        """Sends cached updates to the changelog and downstream."""
        frozen = self.frozen or self.freeze()
        for key, put in frozen.waiting.items():
            old = self.committed.get(key)
            if put.value is None and old is None:
                continue
            self.changelog.append((key, put))
            window = key.window(self.shape)
            self.heard.append(
                Flushed(key.key.encode(), window, put.value, None if old is None else old.value, put.timestamp)
            )
        frozen.waiting.clear()

    def commit(self) -> None:
        self.flush()
        assert self.frozen is not None
        self.committed, self.committed_time = self.frozen.rows, self.frozen.time
        self.committed_sequence = self.frozen.sequence
        # Only the flush writes the changelog of a store with caching: all that is there is of this commit.
        self.committed_offset = len(self.changelog) if self.shape.caching else self.frozen.offset
        self.frozen = None

    def crash(self, wiped: bool = False) -> int:
        """Forgets what is in memory, then restores from the changelog. Returns the offset where the restore begins."""
        if wiped or not self.survives:
            self.committed, self.committed_time, self.committed_sequence, self.committed_offset = {}, -1, 0, 0
        offset = self.committed_offset
        self.waiting.clear()
        self.frozen = None
        self.rows, self.time, self.sequence = dict(self.committed), self.committed_time, self.committed_sequence
        for key, put in self.changelog[offset:]:
            self.time = max(self.time, key.time)
            self._set(self.rows, key, put)
            self.sequence = 0 if self.shape.sessions else key.rest
        self.commit()
        self.committed_offset = len(self.changelog)
        return offset

    # ---- reading ----

    def of_key(self, key: str, time_from: int, time_to: int, committed: bool = False) -> list[tuple[Key, Put]]:
        found = ((row, put) for row, put in self.visible(committed).items() if row.key == key)
        return sorted((row, put) for row, put in found if time_from <= row.time <= time_to)

    def of_keys(self, key_from: str | None, key_to: str | None, time_from: int, time_to: int) -> list[tuple[Key, Put]]:
        found = [
            (row, put)
            for row, put in self.visible().items()
            if (key_from is None or row.key >= key_from)
            and (key_to is None or row.key <= key_to)
            and time_from <= row.time <= time_to
        ]
        return sorted(found, key=lambda each: (self.segment(each[0].time), each[0].data(self.shape.sessions)))

    def by_changelog_key(
        self, key_from: str | None, key_to: str | None, time_from: int, time_to: int, committed: bool
    ) -> list[tuple[Key, Put]]:
        found = (
            (row, put)
            for row, put in self.visible(committed).items()
            if time_from <= row.time <= time_to
            and (key_from is None or row.key.encode() >= key_from.encode())
            and (key_to is None or row.key.encode() <= key_to.encode())
        )
        return sorted(found, key=lambda each: each[0].data(self.shape.sessions))


def until(latest_start: int, found: Iterable[tuple[Key, Put]]) -> list[tuple[Key, Put]]:
    """Returns the sessions among ``found`` that start at ``latest_start`` or before."""
    return [(key, put) for key, put in found if key.rest <= latest_start]
