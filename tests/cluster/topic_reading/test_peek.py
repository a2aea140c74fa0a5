"""Peeks at topics of a broker in memory."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock.cluster.record_side import Form, Looked, Peek
from penstock.cluster.topic_reading import range_reads
from penstock.cluster.topic_reading.peek import peeked
from penstock.cluster.topic_reading.range_reads import Budget
from penstock.cluster.topic_reading.sources import PickledSerdes
from penstock.cluster.topic_reading.topic_serdes import TopicSerdes
from penstock.common.errors import BrokerUnreachableError, MissingTopicError
from penstock.common.ids import TopicPartition
from penstock.common.serdes import Serde, Serdes
from penstock.testing.fake_broker import FakeBroker, FakeRecord
from penstock.testing.fake_clients import FakeConsumer
from tests.cluster.topic_reading.logs import TEXT, Logs


def peek(logs: Logs, limit: int = 20, budget: Budget | None = None, value: Serde[Any] = TEXT, topic: str = "t") -> Peek:
    source = logs.source(value=value)
    assert source.serdes is not None
    return peeked(source, source.serdes, topic, limit, budget)


def values(found: Peek) -> list[Any]:
    return [record.value and record.value.value for record in found.records]


def test_the_newest_records_of_all_partitions_come_first_with_all_their_parts() -> None:
    logs = Logs(4)
    for number in range(30):
        logs.write(f"v{number}", number % 3, number)  # the fourth partition stays empty
    headers = [("trace", b"7"), ("none", None), ("<i>", b"\xff")]
    logs.broker.append("t", FakeRecord(None, None, 99, headers), 2)
    found = peek(logs, 5)
    assert values(found) == [None, "v29", "v28", "v27", "v26"]
    newest = found.records[0]
    assert (newest.partition, newest.offset, newest.timestamp, newest.key, newest.value) == (2, 10, 99, None, None)
    shown = [(name, data and (data.form, data.value)) for name, data in newest.headers]
    assert shown == [("trace", (Form.TEXT, "7")), ("none", None), ("<i>", (Form.BYTES, b"\xff"))]
    assert (found.topic, found.use, found.committed_only, found.stopped) == ("t", "read by source", False, None)
    assert [(each.begin, each.end) for each in found.looked] == [(0, 10), (0, 10), (0, 11), (0, 0)]


def test_an_empty_topic_has_nothing() -> None:
    found = peek(Logs(3))
    assert (found.records, found.stopped) == ((), None)
    assert found.looked == tuple(Looked(number, 0, 0, 0) for number in range(3))


def test_exactly_once_it_shows_committed_records_alone_and_looks_behind_markers_for_them() -> None:
    logs = Logs(exactly_once=True)
    for number in range(40):
        logs.transaction(f"v{number}", commit=number % 2 == 0)
    logs.transaction("open", commit=None)
    found = peek(logs, 15)
    assert values(found) == [f"v{number}" for number in range(38, 8, -2)]
    assert found.committed_only
    assert found.looked[0].end == 80, "the open transaction is behind the last stable offset"


def test_an_application_that_reads_uncommitted_records_is_shown_those() -> None:
    logs = Logs()
    logs.transaction("aborted", commit=False)
    assert values(peek(logs)) == ["aborted"]


def test_values_that_cannot_be_decoded_do_not_hide_the_others() -> None:
    logs = Logs()
    logs.write(Serdes.long().serialize(7))
    logs.write("<script>alert(1)</script>")
    logs.write(b"x" * 1_000_000)
    found = peek(logs, value=Serdes.long())
    shown = [record.value for record in found.records if record.value]
    assert [each.form for each in shown] == [Form.TEXT, Form.TEXT, Form.DECODED]
    assert [each.size for each in shown] == [1_000_000, 25, 8]
    assert [each.clipped for each in shown] == [True, False, False]


def test_serdes_that_cannot_travel_or_cannot_be_imported_here_are_a_problem_of_each_value() -> None:
    logs = Logs()
    logs.write("v")
    lock = threading.Lock()
    there = PickledSerdes.of(TopicSerdes(TEXT, Serde("mine", str.encode, lambda data: lock), "read by source"))
    for serdes in (there, PickledSerdes("read by source", b"no pickle")):
        found = peeked(logs.source(), serdes, "t", 20)
        (record,) = found.records
        assert record.value is not None
        assert (record.value.form, record.value.value) == (Form.TEXT, "v")
        assert record.value.problem is not None
        assert record.value.problem.startswith("its serdes cannot be ")


def test_a_read_ends_at_its_limit_of_bytes_and_names_it() -> None:
    logs = Logs()
    for number in range(200):
        logs.write(f"{number:03}" * 30_000)
    found = peek(logs, 100, Budget(1 << 20, 60))
    assert found.stopped == "1 MiB read"
    assert [record.offset for record in found.records] == list(range(199, 199 - len(found.records), -1))
    assert 0 < len(found.records) < 100


def test_records_of_a_sixth_of_all_bytes_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reads, "_RECORDS", 1)  # large ones come one by one
    logs = Logs()
    for _ in range(30):
        logs.write("v" * 100)
    assert [record.offset for record in peek(logs, 20, Budget(640, 60)).records][:2] == [29, 28]


def test_a_read_ends_at_its_limit_of_seconds() -> None:
    class Clock:
        now_s = 0.0

        def __call__(self) -> float:
            self.now_s += 0.3
            return self.now_s

    logs = Logs(8)
    for number in range(80):
        logs.write("v", number % 8)
    assert peek(logs, 80, Budget(1 << 20, 1, Clock())).stopped == "1 seconds"


class _DeletesFirst(FakeConsumer):
    """Retention deletes the first records between the look at the offsets and the read."""

    def __init__(self, broker: FakeBroker, until: int) -> None:
        super().__init__(broker, "app")
        self._until: int | None = until

    def poll(self, max_records: int, timeout_s: float) -> Any:
        if self._until is not None:
            self._broker.delete_records(TopicPartition("t", 0), self._until)
            self._until = None
        return super().poll(max_records, timeout_s)


@pytest.mark.parametrize(("deleted", "left"), [(95, ["v99", "v98", "v97", "v96", "v95"]), (100, [])])
def test_records_that_retention_deletes_meanwhile_are_left_out(
    deleted: int, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Logs()
    for number in range(100):
        logs.write(f"v{number}")
    monkeypatch.setattr(type(logs.clients), "restore_consumer", lambda it: _DeletesFirst(it.broker, deleted))
    assert values(peek(logs, 8)) == left


def test_a_topic_that_kafka_does_not_have_and_a_broker_that_does_not_answer() -> None:
    logs = Logs()
    with pytest.raises(MissingTopicError, match="topic 'gone' does not exist"):
        peek(logs, topic="gone")
    logs.broker.down = True
    with pytest.raises(BrokerUnreachableError):
        peek(logs)
