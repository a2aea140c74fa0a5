"""Contracts of stores: the methods that the engine calls, and the objects that it gives to stores. A processor's side:
``views.py``.

A *row* is what RocksDB or memory holds: key bytes and row bytes. Its form is the store's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from penstock.common.errors import StateStoreError, UnknownStateStoreError
from penstock.common.records import Headers
from penstock.state.queries import Query, QueryRow, unknown_query

Log = Callable[[bytes, bytes | None, int], None]
"""Writes (key, value or None, timestamp) to the store's changelog; a timestamp may be ``SENT_NOW``."""


LogWithHeaders = Callable[[bytes, "bytes | None", int, "Headers | None"], None]
"""Writes (key, value or None, timestamp, headers or None) to the store's changelog, like :data:`Log`."""


ChangelogRow = tuple[bytes, bytes, int, "Headers | None"]
"""Key, value, timestamp and headers of a record of a changelog that is no deletion."""


def _no_headers() -> Headers | None:
    return None


class CommittedStore(Protocol):
    """The rows of one store that are committed: bytes in, bytes out. Changed only by :meth:`TaskStores.write`."""

    def get(self, key: bytes) -> bytes | None:
        """The row of ``key``."""

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The rows of ``keys``, in their order. Lets other threads run while it reads."""

    def scan(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows by key, both ends included, None open. Raises StateStoreError if the data is corrupt."""

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of rows."""

    def figures(self) -> Mapping[str, float]:
        """Metrics of the rows, by their names in Kafka Streams' ``stream-state-metrics``."""


class CommitBatch(Protocol):
    """All changes of one commit, in the order of the calls; :meth:`TaskStores.write` applies all or none of them."""

    def put(self, store: str, key: bytes, row: bytes) -> None:
        """Set a row."""

    def put_all(self, store: str, rows: dict[bytes, bytes | None]) -> Iterator[None]:
        """Put all ``rows`` (None is a deletion), in the order in which many are written fastest. Exhaust the iterator:
        it yields now and then."""

    def delete(self, store: str, key: bytes) -> None:
        """Delete a row."""

    def delete_range(self, store: str, from_key: bytes, to_key: bytes) -> None:
        """Delete the rows from ``from_key`` up to but not including ``to_key``, none unless it is after ``from_key``.

        Rows that this batch puts there later stay. A range costs the same however many rows it has, but slows down
        every later read in RocksDB: delete one range for all expired rows, not one for each key.
        """


class BulkLoad(CommitBatch, Protocol):
    """Gathers the rows of one store from many records of its changelog in memory, and writes them when they are
    many."""

    @property
    def resident_bytes(self) -> int:
        """Approximate bytes that the gathered rows take in the process."""

    @property
    def must_wait(self) -> bool:
        """True if the store has got more files than it could merge yet: writing more now would slow down reads and
        stall a commit."""

    def write(self, changelog_offset: int) -> Iterator[None]:
        """Put the gathered rows to the store, which then remembers this offset. Exhaust the iterator: it yields every
        2 ms or so. Rows that are gathered from now on belong to the next call.

        Not atomic: after a crash there may be rows that the offset does not cover. They are the rows of the next
        records, so restoring these again puts the same rows.
        """


@dataclass(frozen=True)
class StoreInFolder:
    """One store of a checkpoint. ``layout``: the form of its rows (:attr:`StoreBuilder.layout`). ``changelog_offset``:
    the next changelog offset to restore from; None if nothing was ever written."""

    layout: str
    changelog_offset: int | None


class TaskStores(Protocol):
    """All stores of one task: one database, one atomic write per commit, changelog offsets in the same write."""

    def store(self, name: str) -> CommittedStore:
        """The committed rows of store ``name``."""

    def new_batch(self) -> CommitBatch:
        """An empty batch."""

    def write(self, batch: CommitBatch, changelog_offsets: Mapping[str, int]) -> None:
        """Apply ``batch`` and remember, per store, the next changelog offset to restore from. Atomic."""

    def bulk_load(self, store: str) -> BulkLoad | None:
        """Returns a load for restoring many records; None if batches are as fast. A wipe or a close ends it."""

    def changelog_offset(self, store: str) -> int | None:
        """The next changelog offset to restore from; None if nothing was ever written (start at the beginning)."""

    def wipe(self, store: str) -> None:
        """Delete every row of ``store`` and its offset, because rows are corrupt, or the changelog no longer has the
        offset. After a crash half-way the store is wiped when it is opened again."""

    def flush(self) -> None:
        """Write to files what is only in memory and in the log, so that a :meth:`checkpoint` right after it is short.

        Lets other threads run. It may run in another thread beside every call except :meth:`wipe` and :meth:`close`:
        these must wait for its end.
        """

    def checkpoint(self, folder: Path) -> Mapping[str, StoreInFolder]:
        """Put all rows on disk, as of the last write, into ``folder``, which must not exist; no later call changes
        them. ``open_task_stores`` opens the folder. Returns the stores that are in it.

        Files are hard links, so ``folder`` must be on the file system of the stores. Rows that are not flushed are
        copied. Nothing waits for the disk: a power cut may leave a damaged folder. Stores in memory have no checkpoint:
        if there is nothing on disk, no folder is made.
        """

    def close(self) -> None:
        """Release files and locks. Every later call, and every scan not yet exhausted, raises StateStoreError."""


def no_such_store(name: str, known: Iterable[str]) -> UnknownStateStoreError:
    """The error that names ``name`` and the stores that a task has."""
    return UnknownStateStoreError(f"the task has no store {name!r}; it has: {', '.join(sorted(known)) or 'none'}")


def scan_after_close(what: str) -> StateStoreError:
    """The error for a scan of ``what`` that outlived its store."""
    return StateStoreError(f"a scan of {what} was used after its store was closed")


def unexpected_changelog_key(store: str, key: bytes, why: str, renamed: str = "store") -> StateStoreError:
    """The error for a ``key`` in the changelog that ``store`` cannot have written: ``why``, as a relative clause."""
    return StateStoreError(
        f"store {store}: its changelog has a record with the key {key!r}, which {why}: the store may have been of "
        f"another kind. Rename the {renamed}, or delete the topic and the state"
    )


@dataclass(frozen=True)
class StateStoreContext:
    """The objects that a task gives to a store. ``committed``: its rows, in RocksDB or in memory. ``log``: None without
    a changelog of its own. ``caching``: True if downstream and changelog get each update at the commit (once per key)
    instead of at once. ``now``: the timestamp (ms) of the record, or punctuation, that a processor handles now.
    ``drop_record``: counts a record that the store did not take because it came too late (``dropped-records``).
    ``log_with_headers``: ``log`` for records with headers. ``headers``: those of the record that a processor handles
    now.
    """

    committed: CommittedStore
    log: Log | None
    caching: bool
    now: Callable[[], int]
    drop_record: Callable[[], None]
    log_with_headers: LogWithHeaders | None = None
    headers: Callable[[], Headers | None] = _no_headers


class StateStore(ABC):
    """One store of one task, as the engine sees it: opened by its :class:`StoreBuilder`, used by one thread.

    Changes stay in the store until the commit: :meth:`flush` moves them to the batch and the changelog,
    :meth:`batch_written` follows when the batch is on disk. If the commit fails, the store is discarded.

    The methods that are not abstract fit a store whose rows are what its changelog holds, and that keeps little in
    memory. docs/STORES.md has an example.
    """

    queries: ClassVar[tuple[type[Query], ...]] = ()
    """The types of queries that it answers."""
    takes_changes_while_committed: ClassVar[bool] = False
    """True if it keeps changes that come after :meth:`freeze`, or after the end of :meth:`flush`, apart from those of
    the commit until :meth:`batch_written`. If one store of a task does not, records wait during the commits of the
    task."""
    restores_blindly: ClassVar[bool] = False
    """True if :meth:`restore` reads no committed row: then the rows of many calls may be written together, later."""
    flushed_last: ClassVar[bool] = False
    """True if a commit flushes this store after all stores with False here. Updates that this store has released may
    have changed those stores. If its changelog recorded the release before the other changelogs had the changes, a
    crash in between would lose them."""
    lies_in_memory: ClassVar[bool] = False
    """True if the object itself keeps committed state, and not rows. Then it is restored from the first record of its
    changelog whenever its task is made again, even if the rows of the other stores stay open. False for a store whose
    rows are kept in memory (``persistent=False``)."""

    def __init__(self, name: str, context: StateStoreContext) -> None:
        self.name = name
        self.context = context

    @abstractmethod
    def view(self) -> Any:
        """Returns the typed store that a processor gets from ``get_state_store``: a new one for each processor."""

    @property
    @abstractmethod
    def has_changes(self) -> bool:
        """True if there is something to flush."""

    def freeze(self) -> None:  # noqa: B027  # see takes_changes_while_committed
        """Set all changes apart for :meth:`flush`: later changes belong to the next commit. Called only if
        ``takes_changes_while_committed``, and there are changes."""

    @property
    def logs_when_flushed(self) -> bool:
        """True if only :meth:`flush` writes to the changelog. Then all records of the changelog after a flush belong to
        that commit. By default, if ``context.caching`` is on."""
        return self.context.caching

    @abstractmethod
    def flush(self, batch: CommitBatch) -> Iterator[None]:
        """Move every change to ``batch``. Write those that were not written at once to the changelog and downstream.
        After :meth:`freeze`, this concerns the changes that it has set apart.

        Yields about every 2 ms: queries are answered at these moments, and must still find every change.
        """

    @abstractmethod
    def batch_written(self) -> None:
        """Called when the batch is on disk: committed rows have the changes now."""

    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        """Put rows for these records of the changelog to ``batch``: oldest first, None is a tombstone.

        Several batches follow each other, and a store may be restored again later. The store must forget committed rows
        that it keeps in memory.
        """
        self.forget_objects()
        for key, value in zip(keys, values, strict=True):
            if value is None:
                batch.delete(self.name, key)
            else:
                batch.put(self.name, key, value)

    def continue_from(self, stream_time: int) -> None:  # noqa: B027  # most count nothing from it
        """Called before a restore: the task continues from a commit at which its records had come to ``stream_time``
        (ms), −1 if that is not known. After a crash a changelog may be ahead of that commit: later records come again,
        and must find what they found. So a store whose rows expire counts from there, until records have come further.

        A standby calls it again at each commit of the active task, before it restores what belongs to that commit."""

    def restore_with_headers(
        self,
        batch: CommitBatch,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None],
    ) -> None:
        """Like :meth:`restore`, for records of which some have headers. By default, these are not kept."""
        self.restore(batch, keys, values, timestamps)

    def changelog_headers(self, key: bytes) -> Headers | None:
        """Returns the headers of :meth:`changelog_record`; None if the store keeps none for ``key``."""
        return None

    def changelog_record(self, key: bytes) -> tuple[bytes | None, int]:
        """Returns the changelog's record for the committed state of ``key``, a key of the changelog, as value (None: no
        record) and timestamp (0 if rows have none, ``SENT_NOW`` if its records have none)."""
        return self.context.committed.get(key), 0

    def changelog_rows(self) -> Iterator[ChangelogRow] | None:
        """Returns all records that an empty changelog must get for the committed state, in the order of the rows. None:
        the rows do not tell the timestamps of its records, or what restores them. Then its records must be kept as they
        come. Headers are left out if only records have them (:attr:`StoreBuilder.logs_headers`). By default None."""
        return None

    def changelog_history(self, key: bytes) -> Sequence[tuple[bytes | None, int]] | None:
        """Returns all records that the changelog must have for the committed state of ``key``, by time, as (value,
        timestamp), if there may be more than one. None: there is only :meth:`changelog_record`."""
        return None

    @property
    def histories_kept_from(self) -> int:
        """Time (ms) from which the histories of committed state are complete; values that were replaced earlier may be
        gone."""
        return 0

    def answer(self, query: Query, after: bytes | None, limit: int, committed: bool) -> Iterator[QueryRow]:
        """Returns the rows that ``query`` asks for, at most ``limit``; if they are several, in the order of their keys.

        ``after``: the key of the last row that was returned before; only rows after it are wanted, or before it if the
        query is ``descending``. ``committed`` leaves out changes that are not committed yet. A store that looks at many
        rows to find few yields a row with the value ``PASSED`` now and then, in addition to the ``limit``. The store is
        not changed while rows are taken. Raises UnknownQueryError for a query that this kind of store does not answer.
        """
        raise unknown_query(query, self.name, self.queries)

    @property
    def misses(self) -> int:
        """Number of times that a committed row was needed and not in memory, prefetched rows included."""
        return 0

    def figures(self) -> Mapping[str, float]:
        """Returns its metrics, by name: Kafka Streams' of the group ``stream-state-metrics``, and penstock's own
        ``cache-misses-total``. Called by the thread that runs its task, every 5 s at most."""
        return {**self.context.committed.figures(), "cache-misses-total": self.misses}

    def prefetch(self, keys: Sequence[bytes | None]) -> None:  # noqa: B027  # its rows may have other keys
        """Read the rows, many at once, that records with these keys will need soon."""

    def forget_objects(self) -> None:  # noqa: B027  # there may be none
        """Read committed rows from their bytes again, as after a restart. Called while there are no changes."""

    def wiped(self) -> None:
        """Forget everything that was computed from committed rows: all were deleted, to be restored from the first
        record of the changelog. Called while there are no changes."""
        self.forget_objects()

    # ---- memory ----

    def resident_bytes(self) -> float:
        """Estimates the bytes that the store takes in the process."""
        return self.dirty_resident_bytes()

    def dirty_resident_bytes(self) -> float:
        """Returns the part of :meth:`resident_bytes` that is taken by changes waiting for the commit."""
        return 0

    def flushed_resident_bytes(self) -> float:
        """Estimates the bytes taken by changes that a commit has begun to flush, until their batch is written."""
        return 0

    def dirty_cache_bytes(self) -> int:
        """Estimates the bytes that Kafka Streams' cache would count for changes that wait for the commit."""
        return 0

    def drop_unused(self) -> bool:
        """Drop the committed entries that were not used since the last call. Returns False if there are none."""
        return False
