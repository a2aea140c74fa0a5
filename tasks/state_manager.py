"""Stores and their restore: the half of a task that a standby consists of."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import GeneratorType
from typing import cast

from penstock.common.errors import StateStoreError, TopologyError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.records import Headers
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import (
    BulkLoad,
    CommitBatch,
    Log,
    LogWithHeaders,
    StateStore,
    StateStoreContext,
    StoreInFolder,
    TaskStores,
)
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.context import TaskContext
from penstock.tasks.contracts import RecordCollector
from penstock.tasks.failures import Failures
from penstock.tasks.program import TaskProgram
from penstock.tasks.times_of_commit import times_of_commit

_MOST_ROUNDS = 1000
"""Limit of the rounds of a flush of all stores: it ends long before, unless one never reports that it is flushed."""


class StateManager:
    """The stores of one task, of whatever kind: restored, queried, flushed, committed, closed. Mirrors
    ``ProcessorStateManager``.

    Alone it is a standby: it follows the changelogs (:meth:`restore`) and its stores answer queries. A
    :class:`~penstock.tasks.task.Task` that is made over it processes records with the state that it has by then.

    The stores write their changelogs to ``collector``, and share ``budget`` with those of other tasks of the thread.
    One thread at a time. An error that leaves a step of a commit ends it: it must be closed, and no change since the
    last commit counts.
    """

    def __init__(
        self,
        task_id: TaskId,
        program: TaskProgram,
        stores: TaskStores,
        collector: RecordCollector,
        budget: MemoryBudget | None = None,
    ) -> None:
        config = program.config
        self.task_id = task_id
        self.program = program
        self.budget = budget or MemoryBudget(config.statestore_cache_max_bytes, config.entries_memory_bytes)
        self.context = TaskContext(config.application_id, task_id)
        self.context.failures = self._failures(program, collector)
        self._task_stores = stores
        self._collector = collector
        opened = {name: self._open(builder) for name, builder in program.stores.items()}
        self._stores = dict(sorted(opened.items(), key=lambda item: item[1].flushed_last))
        self._batch: CommitBatch | None = None
        self._frozen: list[StateStore] = []
        self._detached = False
        self.budget.add(self._stores.values())

    def _failures(self, program: TaskProgram, collector: RecordCollector) -> Failures:
        return Failures(self.context, program.config, collector.send)

    def _open(self, builder: AnyStoreBuilder) -> StateStore:
        context, program = self.context, self.program

        def now() -> int:
            return context.timestamp

        def drop_record() -> None:
            context.dropped_records += 1

        caching = builder.caching and program.config.statestore_cache_max_bytes > 0
        changelog = program.changelogs.get(builder.name)
        log: Log | None = None
        log_with_headers: LogWithHeaders | None = None
        if changelog is not None and not changelog.is_source_topic:
            log_with_headers = partial(self._collector.send, changelog.topic, partition=self.task_id.partition)
            log = _log(self._collector, changelog.topic, self.task_id.partition, builder, context)
        opened: object = builder.open(
            StateStoreContext(
                self._task_stores.store(builder.name),
                log,
                caching,
                now,
                drop_record,
                log_with_headers,
                lambda: context.headers,
            )
        )
        if not isinstance(opened, StateStore):
            raise TopologyError(
                f"store {builder.name}: {type(builder).__name__}.open() returned {opened!r}, not a StateStore"
            )
        if opened.takes_changes_while_committed and type(opened).freeze is StateStore.freeze:
            raise TopologyError(
                f"store {builder.name}: {type(opened).__name__} says takes_changes_while_committed, but has no "
                "freeze() that sets the changes of the commit apart (docs/STORES.md)"
            )
        if opened.lies_in_memory and self._task_stores.changelog_offset(builder.name) is not None:
            # That offset is of the store that was thrown away, as when a transaction was aborted.
            self._task_stores.wipe(builder.name)
        return opened

    # ---- stores ----

    @property
    def store_names(self) -> tuple[str, ...]:
        """The stores, in the order in which a commit flushes them."""
        return tuple(self._stores)

    def store(self, name: str) -> StateStore:
        """Returns the store itself, for operators and queries. Raises KeyError if the task has none of that name."""
        return self._stores[name]

    def cache_bytes(self) -> int:
        """Returns the approximate bytes of updates that wait for a commit, as Kafka Streams counts its cache."""
        return sum(store.dirty_cache_bytes() for store in self._stores.values())

    def forget_objects(self) -> None:
        """After a commit, make the stores decode committed rows again, so that they show what a restart would."""
        for store in self._stores.values():
            store.forget_objects()

    # ---- restore ----

    def continue_from(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Set, before a restore, the commits of the source partitions from which the active task continues. A standby
        calls it again at each commit that it learns of, except with exactly_once_v2: there it has nothing that is not
        committed."""
        for name, time in times_of_commit(self.program, offsets).items():
            self._stores[name].continue_from(time)

    def changelog_offset(self, store: str) -> int | None:
        """Returns the next offset of its changelog to restore from; None if the store was never written."""
        return self._task_stores.changelog_offset(store)

    def bulk_load(self, store: str, position: int) -> BulkLoad | None:
        """Returns a load for many records of the changelog of ``store``, from ``position`` on; None if batches are as
        fast, or the store looks at its rows while it is restored."""
        load = self._task_stores.bulk_load(store) if self._stores[store].restores_blindly else None
        if load is not None and self._task_stores.changelog_offset(store) is None:
            # After a crash there may be rows of it. An offset makes sure that their age is checked then.
            self._task_stores.write(self._task_stores.new_batch(), {store: position})
        return load

    def restore(
        self,
        store: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        next_offset: int,
        headers: Sequence[Headers | None] | None = None,
        load: BulkLoad | None = None,
    ) -> None:
        """Restore records of the changelog of ``store``, oldest first; ``next_offset`` follows the last. They are
        committed at once, or gathered by ``load`` until :meth:`write_load`.

        ``headers``: None if no record has any.
        """
        batch = load if load is not None else self._task_stores.new_batch()
        self._put_restored(batch, store, keys, values, timestamps, headers)
        if load is None:
            self._task_stores.write(batch, {store: next_offset})

    def write_load(self, store: str, load: BulkLoad, next_offset: int) -> Iterator[None]:
        """Write what ``load`` has gathered for ``store`` from records before ``next_offset``. Exhaust it; between
        two steps the stores may be queried."""
        yield from load.write(next_offset)
        self._stores[store].forget_objects()

    def _put_restored(
        self,
        batch: CommitBatch,
        store: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None] | None = None,
    ) -> None:
        into = self._stores[store]
        if None in keys:
            # A source topic may hold such records; a table drops them.
            there = [number for number, key in enumerate(keys) if key is not None]
            keys, values = [keys[number] for number in there], [values[number] for number in there]
            timestamps = [timestamps[number] for number in there]
            headers = None if headers is None else [headers[number] for number in there]
        present = cast("Sequence[bytes]", keys)
        if headers is None:
            into.restore(batch, present, values, timestamps)
        else:
            into.restore_with_headers(batch, present, values, timestamps, headers)

    def wipe(self, store: str) -> None:
        """Forget all of ``store`` and its offset; restoring begins with the first record of its changelog."""
        self._task_stores.wipe(store)
        self._stores[store].wiped()

    # ---- checkpoints ----

    def flush_to_disk(self) -> None:
        """Like :meth:`TaskStores.flush`, for another thread."""
        self._task_stores.flush()

    def checkpoint(self, folder: Path) -> Mapping[str, StoreInFolder]:
        """Put the committed rows that are on disk into ``folder``, and return the stores that are in it."""
        return self._task_stores.checkpoint(folder)

    # ---- commit ----

    @property
    def takes_changes_while_committed(self) -> bool:
        """True if stores may be changed between :meth:`take_snapshot` and the end of :meth:`release_flushed`."""
        return all(store.takes_changes_while_committed for store in self._stores.values())

    def take_snapshot(
        self, flushed_later: Container[str], settle: Callable[[], Generator[None, None, bool]] | None = None
    ) -> Iterator[None]:
        """Begin a commit: move what was changed since the last one to the changelogs and downstream, except for the
        stores ``flushed_later``, which :meth:`flush_snapshot` flushes. Exhaust it; between two steps the stores may be
        queried, but not written. Later changes belong to the next commit. ``settle`` waits for what a flush has led to,
        and returns True if there was anything, which may have changed stores."""
        batch = self._batch = self._task_stores.new_batch()
        later = flushed_later if self.takes_changes_while_committed else ()
        at_once = [store for name, store in self._stores.items() if name not in later]
        yield from self._flush_all(at_once, batch)
        while settle is not None and (yield from settle()):
            yield from self._flush_all(at_once, batch)
        self._frozen = [store for store in self._stores.values() if store.has_changes]
        for store in self._frozen:
            store.freeze()

    def flush_snapshot(self) -> Iterator[None]:
        """Flush what :meth:`take_snapshot` has left. Exhaust it; between two steps the stores may be queried,
        and changed if they can take that."""
        assert self._batch is not None
        for store in self._frozen:
            yield from _flush(store, self._batch)

    def _flush_all(self, stores: Iterable[StateStore], batch: CommitBatch) -> Iterator[None]:
        # What one store's flush forwards may be written to a store that was flushed before it.
        for _ in range(_MOST_ROUNDS):
            if not _have_changes(stores):
                return
            for store in stores:
                yield from _flush(store, batch)
        if left := [store.name for store in stores if store.has_changes]:
            raise StateStoreError(
                f"task {self.task_id}: store {', '.join(left)} still has changes after {_MOST_ROUNDS} flushes of one "
                "commit: has_changes must be False when flush() has ended, and what a flush forwards must not change "
                "the store again without end (docs/STORES.md)"
            )

    def commit_at_once(self) -> None:
        """Make a whole commit in one step, for a host that does not use the stores meanwhile and keeps no offsets of
        changelogs."""
        stores = self._stores.values()
        if not _have_changes(stores):
            return
        batch = self._task_stores.new_batch()
        for _ in self._flush_all(stores, batch):
            pass
        self._task_stores.write(batch, {})
        for store in stores:
            store.batch_written()

    @property
    def logged_by_flush(self) -> frozenset[str]:
        """The stores whose changelogs, in the commit under way, only :meth:`flush_snapshot` writes."""
        return frozenset(store.name for store in self._frozen if store.logs_when_flushed)

    def commit(self, changelog_offsets: Mapping[str, int]) -> None:
        """Write all stores at once, when Kafka has what was flushed, each with the offset after its last changelog
        record.

        A store that is not named keeps the offset that it has. :meth:`release_flushed` must follow.
        """
        assert self._batch is not None
        self._task_stores.write(self._batch, changelog_offsets)
        self._batch = None

    def release_flushed(self) -> Iterator[None]:
        """After :meth:`commit`, release the changes that are rows now. Exhaust it like :meth:`flush_snapshot`."""
        for store in self._stores.values():
            yield
            store.batch_written()

    def detach(self) -> TaskStores:
        """Hand over the stores, which stay open with what is committed in them: :meth:`close` does nothing then."""
        self._detached = True
        self.budget.remove(self._stores.values())
        return self._task_stores

    def close(self) -> None:
        """Close the stores. What is not committed is lost."""
        if not self._detached:
            self.budget.remove(self._stores.values())
            self._task_stores.close()


def _log(collector: RecordCollector, topic: str, partition: int, builder: AnyStoreBuilder, context: TaskContext) -> Log:
    """Returns the log function: without headers, with the same for all but deletions, or with the current record's.

    It runs for each record of a changelog: a call by position saves 0.1 µs of the 0.4 of one by keyword.
    """
    send, headers = collector.send, builder.changelog_headers

    def plain(key: bytes, value: bytes | None, timestamp: int) -> None:
        send(topic, key, value, timestamp, None, partition)

    def with_headers(key: bytes, value: bytes | None, timestamp: int) -> None:
        send(topic, key, value, timestamp, None if value is None else headers, partition)

    def with_headers_of_the_record(key: bytes, value: bytes | None, timestamp: int) -> None:
        send(topic, key, value, timestamp, context.headers, partition)

    if builder.logs_headers:
        return with_headers_of_the_record
    return with_headers if headers else plain


def _have_changes(stores: Iterable[StateStore]) -> bool:
    for store in stores:  # noqa: SIM110  # a test driver asks at each record: any() takes three times as long
        if store.has_changes:
            return True
    return False


def _flush(store: StateStore, batch: CommitBatch) -> Iterator[None]:
    steps: object = store.flush(batch)
    if type(steps) is not GeneratorType and not isinstance(steps, Iterator):
        raise StateStoreError(
            f"store {store.name}: {type(store).__name__}.flush() returned {steps!r}, not an iterator: it must be a "
            "generator, with a yield now and then (docs/STORES.md)"
        )
    return steps
