"""The buffer of ``suppress`` against a model, through commits, crashes and restores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from penstock.common.ids import TopicPartition
from penstock.common.records import SENT_NOW, Headers
from penstock.common.serdes import Serdes
from penstock.state.buffers.buffered_change import BufferedChangeCodec, counted_bytes
from penstock.state.buffers.change_buffer import ChangeBuffer, ChangeBufferBuilder
from penstock.state.builders import AnyStoreBuilder
from tests.state.store_machine import NAME, Logged, StoreMachine, can_change
from tests.tiers import examples

CODEC = BufferedChangeCodec(NAME, Serdes.string())
keys = st.sampled_from([b"", b"a", b"b", b"b\0", "ä".encode()])
values = st.sampled_from([None, "", "x", "longer"])
sources = st.sampled_from([None, TopicPartition("in", 3)])
headers_ = st.sampled_from([None, [("h", b"v"), ("none", None)]])

Waits = tuple[Any, ...]
"""(time, prior, old, new, timestamp, headers, source, offset)"""
Model = dict[bytes, Waits]


def comparable(waits: Sequence[Any]) -> Waits:
    time, prior, old, new, timestamp, headers, source, offset, *_ = waits
    return time, prior, old, new, timestamp, list(headers or ()), source, offset


class ChangeBufferMachine(StoreMachine):
    has_caching = False
    store: ChangeBuffer

    def builder(self, persistent: bool, caching: bool) -> AnyStoreBuilder:
        return ChangeBufferBuilder(NAME, Serdes.bytes(), Serdes.string())

    def model_of(self, changelog: Sequence[Logged]) -> Model:
        last = {key: value for key, value, _ in changelog}
        assert all(timestamp == SENT_NOW for *_, timestamp in changelog)
        return {key: comparable(CODEC.decode(value)) for key, value in last.items() if value is not None}

    @precondition(can_change)
    @rule(
        updates=st.lists(st.tuples(keys, st.integers(0, 20), values, values, headers_, sources), min_size=1, max_size=6)
    )
    def put(
        self,
        updates: list[tuple[bytes, int, str | None, str | None, Headers | None, TopicPartition | None]],
    ) -> None:
        for number, (key, time, old, new, headers, source) in enumerate(updates):
            offset = -1 if source is None else number
            self.store.put(key, time, old, new, time + 1, headers, source, offset, None)
            first = self.latest.get(key, (time, old))
            waits = (first[0], first[1], old, new, time + 1, headers, source, offset)
            self.latest = {**self.latest, key: comparable(waits)}

    @precondition(can_change)
    @rule(most=st.integers(1, 3))
    def let_go(self, most: int) -> None:
        self.store.arrange()
        for time, key in sorted((waits[0], key) for key, waits in self.latest.items())[:most]:
            assert self.store.order[0] == (time, key)
            waits = self.store.find(key)
            assert waits is not None
            assert comparable(waits) == self.latest[key]
            self.store.remove_first()
            self.latest = {other: waits for other, waits in self.latest.items() if other != key}

    @precondition(can_change)
    @rule()
    def count_its_bytes(self) -> None:
        self.store.count_bytes()

    def assert_shows(self, model: Model, committed: bool) -> None:
        if committed:  # it is in memory alone: there are no queries for what is committed
            return
        assert len(self.store) == len(model)
        counted = 0
        for key, waits in model.items():
            data, timestamp = self.store.changelog_record(key)
            assert data is not None
            assert (comparable(CODEC.decode(data)), timestamp) == (waits, SENT_NOW)
            counted += counted_bytes(key, data)
        assert self.store.changelog_record(b"none") == (None, SENT_NOW)
        if self.store._counting and self.store._in_order:
            assert self.store.counted_bytes == counted


TestChangeBuffer = ChangeBufferMachine.TestCase
TestChangeBuffer.settings = settings(max_examples=examples(20), stateful_step_count=25)
