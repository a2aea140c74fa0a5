"""Every key that a range shows is found by its key, in stores of every kind, whichever program partitioned it: over
HTTP, by views, by questions as values. All of it is real but Ray and Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx
import pytest
from typing_extensions import override

import penstock as ps
from penstock.cluster.queries.state_query import answer as answer_query
from penstock.cluster.queries.store_reader import StoreQuestions, StoreReader
from penstock.cluster.queries.store_view import (
    ReadOnlyKeyValueStore,
    ReadOnlyVersionedKeyValueStore,
    SessionStoreView,
    WindowStoreView,
)
from penstock.common.murmur2 import partition_for
from penstock.common.partitioners import Partitioner
from penstock.common.windows import LARGEST_TIMESTAMP
from tests.actors.rig import APPLICATION
from tests.cluster.local_application import LocalApplication
from tests.cluster.test_store_questions import PARTITIONS, STRING, STRINGS, joined, topology
from tests.cluster.test_store_questions import client as client
from tests.cluster.test_store_questions import reader as reader

KEYS = [f"key-{number}" for number in range(40)]
Started = Callable[..., LocalApplication]


def by_crc32(key: bytes, turn: int) -> int:
    return crc32(key) % PARTITIONS


def by_length(key: bytes, turn: int) -> int:
    return len(key) % PARTITIONS


def by_several_programs(key: bytes, turn: int) -> int:
    return by_crc32(key, turn) if turn % 2 else partition_for(key, PARTITIONS)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    running: list[LocalApplication] = []

    def start(topology: ps.Topology, *topics: str) -> LocalApplication:
        running.append(LocalApplication(tmp_path, topology, topics, PARTITIONS))
        monkeypatch.setattr("ray.get_actor", lambda *_: running[-1])
        return running[-1]

    yield start
    for each in running:
        each.close()


def questions(reader: StoreReader, store: str) -> StoreQuestions:
    return StoreQuestions(reader, store, None, 1.0)


def entries(client: httpx.Client, path: str, **asked: str | int) -> list[dict[str, Any]]:
    answer = client.get(path, params={"limit": 1000, **asked})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["entries"]
    return found


def by_key(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["key"], []).append(row)
    return found


@pytest.mark.parametrize(
    ("place", "known"),
    [
        (by_crc32, Partitioner.MURMUR2),
        (by_crc32, Partitioner.CRC32),
        (by_length, Partitioner.MURMUR2),
        (by_length, Partitioner.UNKNOWN),
        (by_several_programs, Partitioner.MURMUR2),
        (by_several_programs, Partitioner.CRC32),
    ],
)
def test_every_key_that_a_range_returns_is_found_by_a_lookup(
    started: Started,
    client: httpx.Client,
    reader: StoreReader,
    place: Callable[[bytes, int], int],
    known: Partitioner,
) -> None:
    application = started(topology(), "in", "prices", "users")
    application.partitioner = known
    for turn in range(3):
        for key in KEYS:
            at = 100_000 + turn * 10_000
            application.write("in", key, str(turn), at, place(key.encode(), turn))
            application.write("prices", key, str(turn), at, place(key.encode(), turn))
    application.settle()

    shown = by_key(entries(client, "all/range"))
    assert sorted(shown) == sorted(KEYS)
    counts: Any = ReadOnlyKeyValueStore(questions(reader, "all"))
    for key, rows in shown.items():
        values = [row["value"] for row in rows]
        assert client.get(f"all/keys/{key}").json()["value"] in values
        assert counts.get(key) in values
        request = ps.StateQueryRequest.in_store("all").with_query(ps.KeyQuery(key))
        assert answer_query(reader, request).result.value in values
    batch = client.post("all/keys:batch", json={"keys": [*KEYS, "absent"]}).json()["entries"]
    assert [entry and entry["key"] for entry in batch] == [*KEYS, None]
    assert sorted(counts.get_many(KEYS)) == sorted(KEYS)
    assert client.get("all/keys/absent").status_code == 404

    windows: Any = WindowStoreView(questions(reader, "windows"))
    for key, rows in by_key(entries(client, "windows/windows")).items():
        assert entries(client, f"windows/windows/{key}") == rows, "all windows of the key, from whichever tasks"
        starts = [row["window"]["start"] for row in rows]
        assert [start for start, _ in windows.fetch(key, 0, LARGEST_TIMESTAMP)] == starts
        assert windows.fetch(key, starts[0]) in [row["value"] for row in rows if row["window"]["start"] == starts[0]]

    sessions: Any = SessionStoreView(questions(reader, "sessions"))
    for key, rows in by_key(entries(client, "sessions/sessions")).items():
        assert entries(client, f"sessions/sessions/{key}") == rows
        assert len(list(sessions.fetch(key))) == len(rows)

    versions: Any = ReadOnlyVersionedKeyValueStore(questions(reader, "versions"))
    for key in KEYS:
        assert client.get(f"versions/versions/{key}").status_code == 200
        assert versions.get(key) is not None
        assert len(entries(client, f"versions/history/{key}")) == 3
        assert len(list(versions.history(key))) == 3
    assert client.get("versions/versions/absent").status_code == 404
    assert entries(client, "windows/windows/absent") == []


class UnderAnotherKey(ps.Processor[str, str, str, str]):
    """Stores each record under a key of its own choice."""

    @override
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.store: ps.KeyValueStore[str, str] = context.get_state_store("kept")

    @override
    def process(self, record: ps.Record[str, str]) -> None:
        self.store.put(f"of {record.key}", record.value)


def test_entries_that_a_processor_stores_under_another_key_are_found(started: Started, client: httpx.Client) -> None:
    builder = ps.StreamsBuilder()
    builder.add_state_store(
        ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("kept"), STRING, STRING)
    )
    stream = builder.stream("in", STRINGS)
    stream.process(UnderAnotherKey, "kept")
    application = started(builder.build(), "in")
    for key in KEYS:
        application.write("in", key, "x", 1000)
    application.settle()
    shown = [row["key"] for row in entries(client, "kept/range")]
    assert len(shown) == len(KEYS)
    assert [client.get(f"kept/keys/{key}").status_code for key in shown] == [200] * len(KEYS)


def test_keys_that_a_custom_partitioner_has_placed_are_found(started: Started, client: httpx.Client) -> None:
    def by_last_letter(topic: str, key: str, value: str, partitions: int) -> int:
        return ord(key[-1]) % partitions

    builder = ps.StreamsBuilder()
    own = ps.Repartitioned.with_(STRING, STRING).with_name("own").with_stream_partitioner(by_last_letter)
    builder.stream("in", STRINGS).repartition(own).group_by_key().reduce(joined, ps.Materialized.as_("kept"))
    application = started(builder.build(), "in", f"{APPLICATION}-own-repartition")
    for key in KEYS:
        application.write("in", key, "x", 1000)
    application.settle()
    application.commit()
    shown = [row["key"] for row in entries(client, "kept/range")]
    assert sorted(shown) == sorted(KEYS)
    assert [client.get(f"kept/keys/{key}").status_code for key in shown] == [200] * len(KEYS)
