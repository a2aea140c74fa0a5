"""A window or session store of one task with its changelog, beside the model: changes are made to both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from penstock.common.serdes import Serdes
from penstock.common.windows import Window, Windowed
from penstock.state.contracts import BulkLoad, CommittedStore, StateStoreContext, TaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.queries import PASSED, Query, QueryRow
from penstock.state.views import ValueAndTimestamp
from penstock.state.windowed.expiring_store import ExpiringStateStore
from penstock.state.windowed.session_store import SessionStoreBuilder
from penstock.state.windowed.window_store import TimestampedWindowStoreBuilder, WindowStoreBuilder
from tests.state.windowed_model import Flushed, Key, Model, Put, Shape

NAME = "store"
PROGRESS = b"\xffprogress"


def builder_of(shape: Shape) -> Any:
    """Returns the builder that a program would write for this store."""
    serdes = (Serdes.string(), Serdes.string())
    if shape.sessions:
        return SessionStoreBuilder(NAME, *serdes, retention_ms=shape.retention_ms)
    kind = TimestampedWindowStoreBuilder if shape.timestamped else WindowStoreBuilder
    return kind(
        NAME,
        *serdes,
        retention_ms=shape.retention_ms,
        window_size_ms=shape.window_size_ms,
        retain_duplicates=shape.retain_duplicates,
    )


class Rig:
    """A store below ``path``, or in memory if that is None."""

    def __init__(self, shape: Shape, path: Path | None) -> None:
        self.shape = shape
        self.model = Model(shape, survives=path is not None)
        self.changelog: list[tuple[bytes, bytes | None, int]] = []
        self.heard: list[Flushed] = []
        self.dropped = 0
        self._path = path
        self.now = 0
        self._builder = builder_of(shape)
        self._stores: TaskStores
        self.store: ExpiringStateStore
        self.view: Any
        self._open()

    def _open(self) -> None:
        self._stores = open_task_stores(self._path, [self._builder])
        context = StateStoreContext(
            self._stores.store(NAME), self._log, self.shape.caching, lambda: self.now, self._drop_record
        )
        self.store = self._builder.open(context)
        if self.shape.caching:
            self.store.listen(self._hear, old_values=True)
        self.view = self.store.view()

    def _log(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self.changelog.append((key, value, timestamp))

    def _drop_record(self) -> None:
        self.dropped += 1

    def _hear(self, row_key: bytes, new: Any, old: Any, timestamp: int, headers: Any) -> None:
        rows = self.store.rows
        self.heard.append(Flushed(rows.key(row_key), rows.schema.window(row_key), new, old, timestamp))

    # ---- changes ----

    def put(self, key: str, time: int, rest: int, value: str | None, timestamp: int) -> None:
        """Puts a row into store and model. In a window store ``rest`` has no meaning."""
        self.now = timestamp
        if self.shape.sessions:
            self.view.put(Windowed(key, Window(rest, time)), value)
        else:
            stored = ValueAndTimestamp(value, timestamp) if self.shape.timestamped and value is not None else value
            self.view.put(key, stored, time)
        self.model.put(key, time, rest if self.shape.sessions else 0, value, timestamp)

    def remove(self, key: str, end: int, start: int, timestamp: int) -> None:
        self.now = timestamp
        self.view.remove(Windowed(key, Window(start, end)))
        self.model.put(key, end, start, None, timestamp, counted=False)

    def commit(self, refused: bool = False, meanwhile: Iterable[Callable[[], None]] = ()) -> None:
        """Commits. ``refused``: the changelog has everything, the store nothing, and the task is thrown away.

        ``meanwhile`` has changes that come while the commit is under way: the first after the snapshot, one at each
        step of the flush, the rest when the batch is written.
        """
        changes = iter(meanwhile)

        def change(all_of_them: bool = False) -> None:
            for do in changes:
                do()
                self.check_everything()
                if not all_of_them:
                    return

        batch = self._stores.new_batch()
        steps: Iterator[None] = iter(())
        if self.store.has_changes:
            self.store.freeze()
            steps = self.store.flush(batch)
        frozen = self.model.freeze()
        change()
        for _ in steps:
            change()
            self.check_everything()
        if refused:
            self.model.flush()
            self.crash(1000)
            return
        offset = len(self.changelog) if self.shape.caching else frozen.offset
        self._stores.write(batch, {NAME: offset})
        change(all_of_them=True)
        self.store.batch_written()
        self.model.commit()
        self.check_everything()
        self.check_rows()

    def commit_unchecked(self) -> None:
        """Commit without a look at the model, which lacks the changes that were made to the view alone."""
        batch = self._stores.new_batch()
        for _ in self.store.flush(batch):
            pass
        self._stores.write(batch, {NAME: len(self.changelog)})
        self.store.batch_written()

    def crash(self, batch_size: int, wiped: bool = False, gathered: bool = False) -> None:
        """End the task, start it again, and restore the rest of its changelog in batches; all if it is ``wiped``.

        ``gathered``: every other batch is written with the next one, as a file, if the store is on disk."""
        self._stores.close()
        self._open()
        if wiped:
            self._stores.wipe(NAME)
            self.store.wiped()
        offset = self.model.crash(wiped)
        assert (self._stores.changelog_offset(NAME) or 0) == offset
        load = self._stores.bulk_load(NAME) if gathered else None
        for begin in range(offset, len(self.changelog), batch_size):
            self._restore(self.changelog[begin : begin + batch_size], begin, load)
            self.fetch_each()  # as queries do: what is restored later must not be hidden by what was read before
        self.check_everything()
        self.check_rows()

    def _restore(self, records: Sequence[tuple[bytes, bytes | None, int]], offset: int, load: BulkLoad | None) -> None:
        batch, end = load or self._stores.new_batch(), offset + len(records)
        keys, values, timestamps = zip(*records, strict=True)
        self.store.restore(batch, keys, values, timestamps)
        if load is None:
            self._stores.write(batch, {NAME: end})
        elif end // len(records) % 2 or end == len(self.changelog):
            for _ in load.write(end):
                pass
            self.store.forget_objects()

    def close(self) -> None:
        self._stores.close()

    def fetch_each(self) -> dict[Key, Any]:
        """Returns, for each row that the model shows, what the store has at exactly this key."""
        rows = [] if self.shape.retain_duplicates else list(self.model.visible())
        if self.shape.sessions:
            return {row: self.view.fetch_session(row.key, row.rest, row.time) for row in rows}
        return {row: self.view.fetch(row.key, row.time) for row in rows}

    # ---- what is expected ----

    def check_everything(self) -> None:
        """Checks all that is shown, was written to the changelog, was heard, and was dropped."""
        everything = self.view.fetch(None, None) if self.shape.sessions else self.view.all()
        assert list(everything) == self.windowed(self.model.of_keys(None, None, 0, 1 << 62))
        assert self.dropped == self.model.dropped
        assert self.fetch_each() == {
            row: self.value(put) for row, put in self.model.visible().items() if not self.shape.retain_duplicates
        }

    def rows(self) -> dict[bytes, bytes]:
        """Returns the committed rows, as they are."""
        rows = dict(self._stores.store(NAME).scan(None, None))
        rows.pop(PROGRESS, None)
        return rows

    def asked_of_committed(self) -> list[tuple[Any, ...]]:
        """Returns a list of what the store asks of its committed rows from now on: names and arguments."""
        asked: list[tuple[Any, ...]] = []
        committed = self.store.rows.buffer.committed

        class Asked:
            def get(self, key: bytes) -> bytes | None:
                asked.append(("get", key))
                return committed.get(key)

            def scan(self, from_key: bytes | None, to_key: bytes | None, reverse: bool = False) -> Any:
                asked.append(("scan", from_key, to_key))
                return committed.scan(from_key, to_key, reverse)

        buffer = self.store.rows.buffer
        buffer.committed = buffer._disk.committed = cast("CommittedStore", Asked())
        return asked

    def check_rows(self) -> None:
        """Asserts that the committed rows are those of the model: none of an expired segment is left."""
        segment, sessions = self.model.segment, self.shape.sessions
        expected = {
            segment(key.time).to_bytes(8, "big") + key.data(sessions): put for key, put in self.model.committed.items()
        }
        rows = self.rows()
        assert rows.keys() == expected.keys()
        for key, put in expected.items():
            header = put.timestamp.to_bytes(8, "big") if self.shape.timestamped else b""
            assert rows[key] == header + str(put.value).encode()

    def check_written(self) -> None:
        sessions = self.shape.sessions
        assert self.changelog == [
            (key.data(sessions), None if put.value is None else put.value.encode(), put.timestamp)
            for key, put in self.model.changelog
        ]
        if self.shape.caching:
            assert self.heard == self.model.heard

    def windowed(self, rows: Sequence[tuple[Key, Put]]) -> list[tuple[Windowed[str], Any]]:
        """Returns what the typed store gives for these rows."""
        return [(Windowed(key.key, key.window(self.shape)), self.value(put)) for key, put in rows]

    def value(self, put: Put | None) -> Any:
        if put is None:
            return None
        return ValueAndTimestamp(put.value, put.timestamp) if self.shape.timestamped else put.value

    def answers(self, query: Query, page: int, committed: bool) -> list[QueryRow]:
        """Returns the whole answer, asked for in pages."""

        def pages() -> Iterator[QueryRow]:
            after: bytes | None = None
            while answered := list(self.store.answer(query, after, page, committed)):
                rows = [row for row in answered if row.value is not PASSED]
                assert len(rows) <= page
                yield from rows
                after = answered[-1].key

        return list(pages())

    def query_rows(self, rows: Sequence[tuple[Key, Put]], descending: bool = False) -> list[QueryRow]:
        """Returns what queries give for these rows."""
        return [
            QueryRow(key.data(self.shape.sessions), put.value, put.timestamp if self.shape.timestamped else None)
            for key, put in (reversed(rows) if descending else rows)
        ]
