"""The uncommitted changes of a write buffer, scanned by key and by group, against plain dictionaries."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from penstock.state.rows.row_formats import Entry
from penstock.state.write_buffer.ordered_changes import OrderedChanges
from tests.tiers import examples

KEYS = st.binary(min_size=1, max_size=2).map(lambda key: bytes(byte % 4 for byte in key))
ENDS = st.none() | KEYS


def group_of(key: bytes) -> bytes:
    return key[:1]


class OrderedChangesMachine(RuleBasedStateMachine):
    """Puts and take-backs continue during a flush, as the task does; a second flush may begin meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.dirty: dict[bytes, Entry] = {}
        self.flushed: dict[bytes, Entry] = {}
        self.changes = OrderedChanges(self.dirty, self.flushed, lambda key, entry: entry)
        self.numbers = 0

    @rule(updates=st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=6))
    def put(self, updates: list[tuple[bytes, bool]]) -> None:
        for key, deleted in updates:
            self.numbers += 1
            self.dirty[key] = (None if deleted else "v", 0, None, self.numbers)

    @precondition(lambda self: self.dirty.keys() - self.flushed.keys())
    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.dirty.keys() - self.flushed.keys())))
        self.changes.take_back(key)
        del self.dirty[key]

    @rule(from_key=ENDS, to_key=ENDS, reverse=st.booleans())
    def scan(self, from_key: bytes | None, to_key: bytes | None, reverse: bool) -> None:
        latest = self.flushed | self.dirty
        inside = [k for k in latest if (from_key is None or k >= from_key) and (to_key is None or k <= to_key)]
        expected = [(key, latest[key]) for key in sorted(inside, reverse=reverse)]
        assert self.changes.between(from_key, to_key, reverse, None) == expected

    @rule(group=KEYS.map(group_of))
    def scan_group(self, group: bytes) -> None:
        latest = self.flushed | self.dirty
        expected = [(key, latest[key]) for key in sorted(latest) if group_of(key) == group]
        assert self.changes.of_group(group, group_of) == expected

    @rule()
    def begin_flush(self) -> None:
        self.changes.begin_flush()
        self.flushed.update(self.dirty)
        self.dirty.clear()

    @rule()
    def commit(self) -> None:
        self.flushed.clear()
        self.changes.forget()


TestAgainstDictionaries = OrderedChangesMachine.TestCase
TestAgainstDictionaries.settings = settings(max_examples=examples(100), stateful_step_count=40)
