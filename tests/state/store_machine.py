"""The frame of a model test for any kind of store: a task's life around it, in any order.

A kind's machine is a subclass with its builder (``builder``), its changes (rules of its own, with
``precondition(can_change)``, which keep ``latest`` true), the meaning of its changelog (``model_of``), and a check
that a store shows a model (``assert_shows``). The frame flushes, commits, has commits refused, kills the task and
restores it, in RocksDB and in memory, and checks after each step.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import CommitBatch, StateStoreContext
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.queries import Query, QueryRow, RowsQuery

NAME = "store"
MANY = 10**6


class Logged(NamedTuple):
    """A record of the changelog."""

    key: bytes
    value: bytes | None
    timestamp: int


def can_change(machine: StoreMachine) -> bool:
    """Returns False during the flush of a store that takes no changes meanwhile: no record is processed then."""
    return machine.steps is None or machine.store.takes_changes_while_committed


class StoreMachine(RuleBasedStateMachine):
    """``latest`` is what the store must show, ``committed`` what it must show to queries for committed rows alone."""

    has_caching = True
    """True if the kind has caching."""

    def builder(self, persistent: bool, caching: bool) -> AnyStoreBuilder:
        """Returns the builder of the store, with the name NAME."""
        raise NotImplementedError

    def model_of(self, changelog: Sequence[Logged]) -> Any:
        """Returns the content of a store that was restored from ``changelog``."""
        raise NotImplementedError

    def assert_shows(self, model: Any, committed: bool) -> None:
        """Asserts that ``store`` shows ``model``, to processors and queries, or to queries for committed rows."""
        raise NotImplementedError

    # ---- a task's life ----

    @initialize(persistent=st.booleans(), caching=st.booleans())
    def begin(self, persistent: bool, caching: bool) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.built = self.builder(persistent, caching)
        self.caching = caching and self.has_caching
        self.now = 0
        self.dropped = 0
        self.changelog: list[Logged] = []
        self.latest = self.model_of([])
        self.committed = self.model_of([])
        self.open()

    def open(self) -> None:
        self.stores = open_task_stores(Path(self.directory.name), [self.built])
        self.batch: CommitBatch | None = None
        self.steps: Iterator[None] | None = None
        self.written = False
        context = StateStoreContext(self.stores.store(NAME), self.log, self.caching, lambda: self.now, self.drop_record)
        self.store = self.built.open(context)
        self.view = self.store.view()

    def end(self) -> None:
        self.steps = None  # a flush under way has a hold on the database
        self.stores.close()

    def log(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self.changelog.append(Logged(key, value, timestamp))

    def drop_record(self) -> None:
        self.dropped += 1

    @precondition(lambda self: self.steps is None and self.store.has_changes)
    @rule()
    def begin_commit(self) -> None:
        self.batch = self.stores.new_batch()
        if self.store.takes_changes_while_committed:
            self.store.freeze()
        self.steps = self.store.flush(self.batch)
        self.snapshot, self.logged_by_then = deepcopy(self.latest), len(self.changelog)

    @precondition(lambda self: self.steps is not None)
    @rule()
    def flush_on(self) -> None:
        assert self.steps is not None
        next(self.steps, None)

    def flush_all(self) -> None:
        if self.steps is None and self.store.has_changes:
            self.begin_commit()
        for _ in self.steps or ():
            pass

    @precondition(lambda self: not self.written)
    @rule()
    def write(self) -> None:
        self.flush_all()
        if self.batch is None:
            return
        # If only flushes write the changelog, all of it is of this commit; else what came later is of the next one.
        by_the_flush = self.store.logs_when_flushed or not self.store.takes_changes_while_committed
        offset = len(self.changelog) if by_the_flush else self.logged_by_then
        self.stores.write(self.batch, {NAME: offset})
        self.written = True
        self.committed = self.snapshot
        assert self.model_of(self.changelog[:offset]) == self.committed, "the changelog holds what was committed"

    @rule(and_forget=st.booleans())
    def commit(self, and_forget: bool) -> None:
        if not self.written:
            self.write()
        self.store.batch_written()
        self.batch = self.steps = None
        self.written = False
        if and_forget:
            self.store.forget_objects()

    @rule(portion=st.integers(min_value=1, max_value=7))
    def have_the_commit_refused(self, portion: int) -> None:
        self.flush_all()
        self.crash(portion, 0)

    @rule(portion=st.integers(min_value=1, max_value=7), gathered=st.integers(min_value=0, max_value=3))
    def crash(self, portion: int, gathered: int) -> None:
        """Kills the task: what was logged stays, what was not committed is gone; the changelog's tail is restored."""
        self.end()
        self.open()
        self.restore(portion, gathered)

    @rule(portion=st.integers(min_value=1, max_value=7), gathered=st.integers(min_value=0, max_value=3))
    def lose_the_rows(self, portion: int, gathered: int) -> None:
        """Restarts the task as after a crash with a disk that cannot be read: the store is wiped when it is open."""
        self.end()
        self.open()
        self.stores.wipe(NAME)
        self.store.wiped()
        self.restore(portion, gathered)

    def restore(self, portion: int, gathered: int = 0) -> None:
        """Restores in portions: each in a batch of its own, or ``gathered`` of them before they are written."""
        begin = self.stores.changelog_offset(NAME) or 0
        load = self.stores.bulk_load(NAME) if gathered and self.store.restores_blindly else None
        for number, first in enumerate(range(begin, len(self.changelog), portion), 1):
            records = self.changelog[first : first + portion]
            offset = first + len(records)
            batch = load or self.stores.new_batch()
            self.store.restore(batch, *map(list, zip(*records, strict=True)))
            if load is None:
                self.stores.write(batch, {NAME: offset})
            elif number % gathered and offset < len(self.changelog):
                continue
            else:
                for _ in load.write(offset):
                    pass
                self.store.forget_objects()
            assert self.stores.changelog_offset(NAME) == offset
            so_far = self.model_of(self.changelog[:offset])
            self.assert_shows(so_far, committed=False)
            self.assert_shows(so_far, committed=True)
        self.latest = self.model_of(self.changelog)
        self.committed = deepcopy(self.latest)

    @rule()
    def make_room(self) -> None:
        self.store.drop_unused()

    @invariant()
    def shows_what_it_holds(self) -> None:
        if hasattr(self, "store"):
            self.assert_shows(self.latest, committed=False)
            self.assert_shows(self.committed, committed=True)

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            self.stores.close()
            self.directory.cleanup()

    # ---- for the machines of a kind ----

    def asked(self, query: Query, committed: bool, page: int = MANY) -> list[QueryRow]:
        """Returns all rows that ``query`` gives, read ``page`` at a time."""
        rows: list[QueryRow] = []
        while True:
            after = rows[-1].key if rows else None
            found = list(self.store.answer(query, after, page, committed))
            assert len(found) <= page
            descending = isinstance(query, RowsQuery) and query.descending
            assert after is None or not found or (found[0].key < after if descending else found[0].key > after)
            rows += found
            if len(found) < page:
                return rows
