"""The changelogs of a task: the same whether records are in memory, on disk, or read from the store."""

from __future__ import annotations

import random
from typing import Any

import pytest

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.pipeline.rows import CHANGELOG
from penstock.pipeline.task_hosts.changelogs import KeptRecords
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost
from tests.pipeline.rows import RESTORE, Row, output, process, run
from tests.pipeline.test_versioned_backfill import program as versioned

STRINGS: ps.Consumed[str, str] = ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())
Log = list[tuple[bytes, bytes | None, int, Any]]


def counted() -> ps.Topology:
    """Counts by key, in windows, in sessions, and in a table whose rows expire."""
    builder = ps.StreamsBuilder()
    lines = builder.stream("lines", STRINGS).group_by_key()
    lines.count(ps.Materialized.as_("all"))
    expiring: ps.Materialized[str, int] = ps.Materialized.as_("expiring")
    lines.count(expiring.with_ttl(3 * 60_000))
    lines.windowed_by(ps.TimeWindows.of_size_with_no_grace(60_000)).count(ps.Materialized.as_("windows"))
    lines.windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(2000)).count(ps.Materialized.as_("sessions"))
    return builder.build()


def joined() -> ps.Topology:
    """Lines joined with words within a minute; what finds nothing comes later."""
    builder = ps.StreamsBuilder()
    left, right = builder.stream("lines", STRINGS), builder.stream("words", STRINGS)
    within = ps.JoinWindows.of_time_difference_with_no_grace(60_000)
    how = ps.StreamJoined.with_(ps.Serdes.string(), ps.Serdes.string(), ps.Serdes.string()).with_name("joined")
    left.left_join(right, lambda one, other: f"{one}{other}", within, how)
    return builder.build()


def table() -> ps.Topology:
    return versioned().build()


PROGRAMS = {counted: ("lines",), joined: ("lines", "words"), table: ("table",)}


def records(rng: random.Random, topics: tuple[str, ...], begin: int) -> list[Row]:
    offsets, rows, time = dict.fromkeys(topics, begin), [], begin * 1000
    for _ in range(400):
        time += rng.randrange(3000)
        topic = rng.choice(topics)
        value = None if topic == "table" and rng.random() < 0.3 else f"v{rng.randrange(9)}"
        rows.append(
            process(0, topic, offsets[topic], f"k{rng.randrange(12)}", value, max(0, time - rng.randrange(9000)))
        )
        offsets[topic] += 1
    return rows


def changelogs(topology: ps.Topology, rows: list[Row]) -> dict[str, Log]:
    names = {f"app-{name}-changelog": name for name in topology.store_builders}
    config = StreamsConfig.of({"application.id": "app", "statestore.cache.max.bytes": 0})
    host = TaskHost(topology.subtopologies[0], HostSettings(config, TopicCounts({}, frozenset(), frozenset(names)), {}))
    logs: dict[str, Log] = {name: [] for name in names.values()}
    for row in output(run(host, rows, 20))[CHANGELOG]:
        logs[names[row["topic"]]].append((row["key"], row["value"], row["timestamp"], row["headers"]))
    return logs


def as_restored(logs: dict[str, Log]) -> list[Row]:
    return [
        (0, RESTORE, store, 0, place, *record)
        for store, log in sorted(logs.items())
        for place, record in enumerate(log)
    ]


@pytest.mark.parametrize("program", PROGRAMS)
def test_records_on_disk_leave_as_those_in_memory(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng, topology, topics = random.Random(seed), program(), PROGRAMS[program]
    first, second = records(rng, topics, 0), records(rng, topics, 400)
    expected = changelogs(topology, first)
    assert any(expected.values())
    more = [*as_restored(expected), *second]
    expected_later = changelogs(topology, more)
    monkeypatch.setattr("penstock.pipeline.task_hosts.changelogs._MEMORY_BYTES", 0)
    assert unexpired(changelogs(topology, first)) == unexpired(expected)
    assert unexpired(changelogs(topology, more)) == unexpired(expected_later)


def unexpired(logs: dict[str, Log]) -> dict[str, Log]:
    """Leaves out records of joins that have expired: if a commit came before, a record is deleted with its segment,
    else it was never written."""
    latest = max(timestamp for log in logs.values() for _, _, timestamp, _ in log)
    return {
        store: [record for record in log if not store.startswith("KSTREAM") or record[2] > latest - 60_000]
        for store, log in logs.items()
    }


def kept(topic: str, store: Any, disk: Any, *, was_empty: bool, expires: bool, logs_headers: bool) -> Any:
    return KeptRecords(topic, store, disk, was_empty=was_empty, expires=expires)


@pytest.mark.parametrize("program", [counted, joined])
def test_rows_that_are_read_from_the_store_are_its_records(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rows = records(random.Random(seed), PROGRAMS[program], 0)
    for at in range(0, len(rows), 3):
        rows[at] = (*rows[at][:-1], [{"key": "n", "value": b"%d" % at}])
    read = changelogs(program(), rows)
    monkeypatch.setattr("penstock.pipeline.task_hosts.task_host.changelog_of", kept)
    as_they_came = changelogs(program(), rows)
    assert read.keys() == as_they_came.keys()
    for store, log in read.items():
        assert "JOINTHIS" not in store or any(headers for *_, headers in log)
        expected = as_they_came[store]
        # A row of a session has the session's end, and no time of its last record.
        compared = slice(2) if store == "sessions" else slice(4)
        assert sorted(map(repr, (row[compared] for row in log))) == sorted(
            map(repr, (row[compared] for row in expected))
        ), store
        assert "KSTREAM" not in store or log[-1:] == expected[-1:], "the number from which a restored store continues"
