"""The buffer of stream-table joins against a model, through commits, crashes and restores; and its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from penstock.common.errors import StateStoreError
from penstock.common.ids import TopicPartition
from penstock.common.serdes import Serdes
from penstock.state.builders import AnyStoreBuilder
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.versioned import join_buffer
from penstock.state.versioned.join_buffer import JoinBuffer, JoinBufferBuilder
from tests.state.contexts import a_context
from tests.state.store_machine import NAME, Logged, StoreMachine, can_change
from tests.tiers import examples

KEYS = (b"", b"a", b"a\0\0\0\0", b"b")
GRACE_MS = 10
NOWHERE = None, -1
SOMEWHERE = TopicPartition("in", 3), 7


@dataclass
class Model:
    """The rows that wait, in order, and how far the buffer has come."""

    rows: dict[bytes, bytes] = field(default_factory=dict)
    time: int = -1
    sequence: int = 0


class JoinBufferMachine(StoreMachine):
    has_caching = False
    store: JoinBuffer

    def builder(self, persistent: bool, caching: bool) -> AnyStoreBuilder:
        return JoinBufferBuilder(NAME, Serdes.bytes(), Serdes.bytes(), persistent, grace_ms=GRACE_MS)

    def model_of(self, changelog: Sequence[Logged]) -> Model:
        model = Model()
        for key, value, timestamp in changelog:
            assert timestamp == -1
            model.time = max(model.time, int.from_bytes(key[1:9], "big"))
            if value is None:
                del model.rows[key]
            else:
                model.rows[key] = value
                model.sequence = int.from_bytes(key[-4:], "big")
        model.rows = dict(sorted(model.rows.items()))
        return model

    @precondition(can_change)
    @rule(records=st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-15, 15)), min_size=1, max_size=8))
    def put(self, records: list[tuple[bytes, int]]) -> None:
        for key, ahead in records:
            timestamp = max(self.latest.time + ahead, 0)
            too_late = timestamp < self.latest.time - GRACE_MS
            assert self.store.is_too_late(timestamp) == too_late
            if not too_late:
                self.store.put(key, b"value", timestamp, None, *SOMEWHERE)
                self.latest = self.model_of(self.changelog)

    @precondition(can_change)
    @rule(most=st.sampled_from([1, 100]))
    def let_go(self, most: int) -> None:
        due = [key for key in self.latest.rows if int.from_bytes(key[1:9], "big") <= self.latest.time - GRACE_MS]
        assert self.store.has_due == bool(due)
        found: list[bytes] = []
        for waited in self.store.due():
            found.append(waited.timestamp.to_bytes(9, "big") + waited.key)
            assert (waited.value, waited.headers, waited.source, waited.offset) == (b"value", None, *SOMEWHERE)
        assert found == [key[:-4] for key in due]
        self.latest = self.model_of(self.changelog)

    def assert_shows(self, model: Model, committed: bool) -> None:
        rows = [(key, entry[0]) for key, entry in self.store.buffer.scan(None, b"\1", committed=committed)]
        assert rows == list(model.rows.items())
        if committed:
            for key in model.rows:
                assert self.store.changelog_record(key) == (model.rows[key], -1)
            assert self.store.changelog_record(b"\0other") == (None, 1)


TestJoinBuffer = JoinBufferMachine.TestCase
TestJoinBuffer.settings = settings(max_examples=examples(15), stateful_step_count=20)


def a_buffer(grace_ms: int, logged: list[Any]) -> JoinBuffer:
    builder = JoinBufferBuilder(NAME, Serdes.bytes(), Serdes.bytes(), grace_ms=grace_ms)
    opened = builder.open(a_context(InMemoryTaskStores([builder]).store(NAME), lambda *record: logged.append(record)))
    assert isinstance(opened, JoinBuffer)
    return opened


def test_its_changelog_has_kafka_streams_bytes() -> None:
    logged: list[Any] = []
    buffer = a_buffer(10, logged)
    buffer.put(b"b", b"zz a", 0x5B, [("h", b"y"), ("none", None)], TopicPartition("in1", 0), 6)
    key, value, timestamp = logged[0]
    assert key.hex() == "00000000000000005b6200000001"
    context = ["000000000000005b", "0000000000000006", "00000003", b"in1".hex(), "00000000"]
    headers = ["00000002", "0000000168", "0000000179", "00000004", b"none".hex(), "ffffffff"]
    values = ["ffffffff", "ffffffff", "00000004", b"zz a".hex()]
    assert value.hex() == "".join([*context, *headers, *values, "0000000000000000"])
    assert timestamp == -1
    buffer.put(b"c", b"", 0x65, None, *NOWHERE)
    (waited,) = buffer.due()
    assert list(waited.headers or ()) == [("h", b"y"), ("none", None)]
    assert waited._replace(headers=None) == (b"b", b"zz a", 0x5B, None, TopicPartition("in1", 0), 6)
    assert logged[2] == (key, None, -1)


def test_records_leave_by_time_then_by_key_then_as_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_buffer, "_READ_AHEAD", 3)
    buffer = a_buffer(100, [])
    for number, (key, timestamp) in enumerate(
        [(b"b", 5), (b"a", 5), (b"a", 5), (b"c", 4), (b"b", 9), *[(b"z", 7)] * 9]
    ):
        buffer.put(key, b"%d" % number, timestamp, None, *NOWHERE)
    assert not buffer.has_due
    buffer.put(b"last", b"", 109, None, *NOWHERE)
    order = [(waited.key, int(waited.value)) for waited in buffer.due()]
    assert order == [
        (b"c", 3),
        (b"a", 1),
        (b"a", 2),
        (b"b", 0),
        *[(b"z", number) for number in range(5, 14)],
        (b"b", 4),
    ]
    buffer.put(b"late", b"", 9, None, *NOWHERE)
    assert [waited.key for waited in buffer.due()] == [b"late"]


@pytest.mark.parametrize("unfinished_backfill", [True, False])
def test_rows_of_an_unfinished_backfill_are_gone_and_rows_left_behind_the_commit_wait(
    unfinished_backfill: bool,
) -> None:
    logged: list[Any] = []
    a_buffer(GRACE_MS, logged).put(b"a", b"value", 100, None, *NOWHERE)
    [(key, row, _)] = logged
    # The next backfill writes this over it. Its rows may have other numbers: the topics had more records by then.
    deletion = a_buffer(GRACE_MS, []).changelog_record(key) if unfinished_backfill else (None, 1_700_000_000_000)
    builder = JoinBufferBuilder(NAME, Serdes.bytes(), Serdes.bytes(), grace_ms=GRACE_MS)
    stores = InMemoryTaskStores([builder])
    live = builder.open(a_context(stores.store(NAME), lambda *record: None))
    assert isinstance(live, JoinBuffer)
    live.continue_from(105)
    batch = stores.new_batch()
    live.restore(batch, [key, key], [row, deletion[0]], [1_600_000_000_000, deletion[1]])
    stores.write(batch, {NAME: 2})
    assert live.waits is not unfinished_backfill


def test_a_record_that_comes_after_a_backfill_does_not_overwrite_one_that_waits() -> None:
    logged: list[Any] = []
    before = a_buffer(GRACE_MS, logged)
    before.put(b"k", b"first", 105, None, *NOWHERE)
    before.put(b"k", b"second", 100, None, *NOWHERE)
    keys, rows, _ = zip(*sorted(logged), strict=True)  # a backfill hands rows over in the order of time
    builder = JoinBufferBuilder(NAME, Serdes.bytes(), Serdes.bytes(), grace_ms=GRACE_MS)
    stores = InMemoryTaskStores([builder])
    live = builder.open(a_context(stores.store(NAME), lambda *record: None))
    assert isinstance(live, JoinBuffer)
    batch = stores.new_batch()
    live.restore(batch, keys, rows, [-1, -1])
    stores.write(batch, {NAME: 2})
    live.put(b"k", b"third", 100, None, *NOWHERE)
    live.observe(200)
    assert [waited.value for waited in live.due()] == [b"second", b"third", b"first"]


def test_a_changelog_of_another_kind_is_reported() -> None:
    buffer = a_buffer(10, [])
    stores = InMemoryTaskStores([JoinBufferBuilder(NAME)])
    with pytest.raises(StateStoreError, match="store store: its changelog has a record with the key b'key', which no"):
        buffer.restore(stores.new_batch(), [b"key"], [b"value"], [0])
