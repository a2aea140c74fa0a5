"""Counts of keys in topics of a broker in memory."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cluster.record_side import KEYS_OF_NEWEST, MOST_FREQUENT, KeyCounts
from penstock.cluster.topic_reading.key_counts import counted_keys
from penstock.cluster.topic_reading.range_reads import Budget
from penstock.common.errors import MissingTopicError
from penstock.common.serdes import Serde, Serdes
from tests.cluster.topic_reading.logs import TEXT, Logs


def counts(logs: Logs, partition: int | None = None, budget: Budget | None = None, key: Serde[Any] = TEXT) -> KeyCounts:
    source = logs.source(key=key)
    assert source.serdes is not None
    return counted_keys(source, source.serdes, "t", partition, budget)


def shown(found: KeyCounts) -> list[tuple[Any, int, int]]:
    return [(each.key and each.key.value, each.partition, each.records) for each in found.keys]


def test_the_key_of_most_records_comes_first_with_its_partition() -> None:
    logs = Logs(3)
    for number in range(60):
        logs.write("v", 1, number, "acme")
        if number % 6 == 0:
            logs.write("v", 2, number, f"other-{number}")
    found = counts(logs)
    assert (found.records, found.different) == (70, 11)
    assert shown(found)[0] == ("acme", 1, 60)
    assert len(found.keys) == MOST_FREQUENT
    assert (found.topic, found.use, found.committed_only, found.stopped) == ("t", "read by source", False, None)


def test_only_the_newest_records_count() -> None:
    logs = Logs()
    for number in range(KEYS_OF_NEWEST + 500):
        logs.write("v", 0, number, "old" if number < 500 else "new")
    assert shown(counts(logs)) == [("new", 0, KEYS_OF_NEWEST)]


def test_one_partition_alone_is_counted() -> None:
    logs = Logs(2)
    logs.write("v", 0, 1, "a")
    logs.write("v", 1, 2, "b")
    logs.write("v", 1, 3, None)
    found = counts(logs, 1)
    assert sorted(shown(found), key=str) == [("b", 1, 1), (None, 1, 1)]
    assert [each.partition for each in found.looked] == [1]
    with pytest.raises(MissingTopicError, match="topic 't' has no partition 2: it has 2"):
        counts(logs, 2)


def test_an_empty_topic_has_no_keys() -> None:
    found = counts(Logs(2))
    assert (found.records, found.different, found.keys) == (0, 0, ())


def test_keys_that_the_serde_refuses_are_text() -> None:
    logs = Logs()
    logs.write("v", key="abc")
    (first,) = counts(logs, key=Serdes.long()).keys
    assert first.key is not None
    assert (first.key.value, first.key.problem is None) == ("abc", False)


def test_a_read_ends_at_its_limit_and_names_it() -> None:
    logs = Logs()
    for _ in range(100):
        logs.write("v" * 90_000)
    found = counts(logs, None, Budget(1 << 20, 60))
    assert found.stopped == "1 MiB read"
    assert 0 < found.records < 100
