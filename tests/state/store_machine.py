"""The frame of a model test for any kind of store: a task's life around it, in whatever order.

A kind's machine is a subclass that says which builder it is (``builder``), how it is changed (rules of its own, with
``precondition(can_change)``, which keep ``latest`` true), what its changelog means (``model_of``), and what a store
shows that holds a model (``assert_shows``). The frame flushes, commits, has commits refused, kills the task, restores
it, in RocksDB and in memory, and looks after each step.
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
    """While a store is flushed that does not tell changes from those of the commit, no record is processed."""
    return machine.steps is None or machine.store.takes_changes_while_committed


class StoreMachine(RuleBasedStateMachine):
    """``latest`` is what the store must show, ``committed`` what it must show to those who ask for that alone."""

    has_caching = True
    """Whether the kind has it."""

    def builder(self, persistent: bool, caching: bool) -> AnyStoreBuilder:
        """The store, with the name NAME."""
        raise NotImplementedError

    def model_of(self, changelog: Sequence[Logged]) -> Any:
        """What a store holds that was restored from ``changelog``."""
        raise NotImplementedError

    def assert_shows(self, model: Any, committed: bool) -> None:
        """``store`` shows what ``model`` holds, to processors and queries, or to queries for what is committed."""
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
        # Where only flushes write the changelog all of it is of this commit; else what came later is of the next one.
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
        """What was logged is there, what was not committed is not; the changelog's tail is restored."""
        self.end()
        self.open()
        self.restore(portion, gathered)

    @rule(portion=st.integers(min_value=1, max_value=7), gathered=st.integers(min_value=0, max_value=3))
    def lose_the_rows(self, portion: int, gathered: int) -> None:
        """As after a crash with a disk that cannot be read: the store is wiped when it is open."""
        self.end()
        self.open()
        self.stores.wipe(NAME)
        self.store.wiped()
        self.restore(portion, gathered)

    def restore(self, portion: int, gathered: int = 0) -> None:
        """In portions: each in a batch of its own, or so many ``gathered`` before they are written."""
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
        """All rows that ``query`` gives, ``page`` at a time."""
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
