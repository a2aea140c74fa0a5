"""The executor's side, without Spark: Arrow batches in, Arrow batches out."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from penstock.common.config import StreamsConfig
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.serdes import Serde, Serdes
from penstock.pipeline.rows import CHANGELOG, OFFSET, READ, SINK
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.pipeline.task_hosts.sorted_rows import SortedRows
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.join_windows import JoinWindows
from penstock.topology.options.options import Consumed, Produced
from penstock.topology.options.stream_joined import StreamJoined
from penstock.topology.options.suppressed import BufferConfig, Suppressed
from penstock.topology.options.windows import TimeWindows
from penstock.topology.physical.topology import Topology
from tests.pipeline.rows import CONFIG, Row, host, on_the_driver, out_of_order, output, process, restore, run
from tests.pipeline.topologies import exploded, kept_for_an_hour, latest_words, priced_orders


def in_task_order(rows: list[Row]) -> list[Row]:
    """Sorts rows by the running maximum within each partition, worked out again here."""
    latest: dict[str, int] = {}
    timed = []
    for row in rows:
        latest[row[2]] = max(latest.get(row[2], -1), row[7])
        timed.append((latest[row[2]], row[2], row[4], row))
    return [row for *_, row in sorted(timed, key=lambda entry: entry[:3])]


def test_a_join_merged_by_time_gives_what_the_task_gives_on_the_driver() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    topology = priced_orders()
    tasks = {
        task: out_of_order(rng, "orders", task, 300, 0) + out_of_order(rng, "prices", task, 150, 1) for task in (0, 1)
    }
    rows = [row for task in tasks for row in in_task_order(tasks[task])]
    for size in (1, 7, 1000):
        results = output(run(host(topology), rows, size))
        for task, own in tasks.items():
            joined = [(r["key"], r["value"], r["timestamp"]) for r in results[SINK] if r["task"] == task]
            assert joined == on_the_driver(topology, own, task)


class Counting(Serde[str]):
    """Text; counts how often it is bound."""

    bindings: ClassVar[list[tuple[str, str]]] = []

    def bind(self, topic: str, part: str) -> Serde[str]:
        self.bindings.append((topic, part))
        return Serdes.string()


def test_the_tasks_of_a_sub_topology_share_what_is_made_once() -> None:
    Counting.bindings.clear()
    builder = StreamsBuilder()
    counting = Counting("counting", str.encode, bytes.decode)
    builder.stream("lines", Consumed.with_(Serdes.string(), counting)).for_each(lambda key, value: None)
    rows = [process(task, "lines", 0, "k", "v", 1) for task in range(3)]
    results = output(run(host(builder.build()), rows, 1))
    assert [row["task"] for row in results[READ]] == [0, 1, 2]
    assert Counting.bindings == [("lines", "value")]


def test_a_task_reports_what_it_read_and_what_to_commit() -> None:
    rows = [process(1, "lines", offset, "k", "v", offset * 10) for offset in (3, 5, 9)]
    results = output(run(host(latest_words()), rows, 2))
    assert [(row["topic"], row["partition"], row["sequence"]) for row in results[OFFSET]] == [("lines", 1, 10)]
    assert [(row["topic"], row["partition"], row["sequence"]) for row in results[READ]] == [("lines", 1, 3)]


def test_state_continues_from_what_was_committed_and_ends_as_one_row_per_key() -> None:
    rows = [
        restore(0, "latest", 0, "kept", b"old", 5),
        restore(0, "latest", 1, "changed", b"old", 5),
        restore(0, "latest", 2, "gone", b"old", 5),
        process(0, "lines", 0, "changed", "newer", 10),
        process(0, "lines", 1, "changed", "newest", 20),
        process(0, "lines", 2, "gone", "", 30),
        process(0, "lines", 3, "new", "first", 40),
    ]
    results = output(run(host(latest_words()), rows, 3))
    written = {row["key"]: (row["value"], row["timestamp"], row["partition"]) for row in results[CHANGELOG]}
    assert written == {b"changed": (b"newest", 20, 0), b"gone": (None, 30, 0), b"new": (b"first", 40, 0)}
    assert len(results[CHANGELOG]) == 3


def test_the_rows_of_a_changelog_come_in_the_order_of_their_keys() -> None:
    rows = [process(0, "lines", offset, key, "v", offset) for offset, key in enumerate(["b", "c", "a", "b"])]
    for before in ([], [restore(0, "latest", 0, "a", b"old", 5)]):
        results = output(run(host(latest_words()), [*before, *rows], 1))
        assert [row["key"] for row in results[CHANGELOG]] == [b"a", b"b", b"c"]


class Watched(SortedRows):
    """Notes how many rows of a changelog are in memory at most."""

    most = 0

    @override
    def put(self, *arguments: Any) -> None:
        super().put(*arguments)
        Watched.most = max(Watched.most, self.in_memory)


@pytest.mark.parametrize("caching", [True, False])
def test_of_windows_that_have_expired_nothing_is_kept_for_the_changelog(
    caching: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.pipeline.task_hosts.changelogs.SortedRows", Watched)
    monkeypatch.setattr("penstock.pipeline.task_hosts.task_host._SMALLEST_COMMIT_BYTES", 0)
    monkeypatch.setattr(Watched, "most", 0)
    minute, count = 60_000, 2000
    rows = [process(0, "lines", offset, "k", "v", offset * minute) for offset in range(count)]
    topology = kept_for_an_hour(caching)
    counts = TopicCounts({}, frozenset(), frozenset({"app-kept-changelog"}))
    config = StreamsConfig.of({"application.id": "app", "statestore.cache.max.bytes": 0})
    results = output(run(TaskHost(topology.subtopologies[0], HostSettings(config, counts, {})), rows, 20))
    written = [int.from_bytes(row["key"][1:9], "big") // minute for row in results[CHANGELOG]]
    assert written == list(range(written[0], count)), "the last windows, each once"
    assert 60 <= len(written) <= Watched.most <= 400


def forgetful(topology: Topology, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """The results, with little memory for changelog rows; ``Watched.most`` of them were there at most."""
    monkeypatch.setattr("penstock.pipeline.task_hosts.changelogs.SortedRows", Watched)
    monkeypatch.setattr("penstock.pipeline.task_hosts.changelogs._MEMORY_BYTES", 40_000)
    monkeypatch.setattr("penstock.pipeline.task_hosts.task_host._SMALLEST_COMMIT_BYTES", 0)
    monkeypatch.setattr(Watched, "most", 0)
    changelogs = frozenset(f"app-{name}-changelog" for name in topology.store_builders)
    config = StreamsConfig.of({"application.id": "app", "statestore.cache.max.bytes": 0})
    counts = TopicCounts({}, frozenset(), changelogs)
    return output(run(TaskHost(topology.subtopologies[0], HostSettings(config, counts, {})), rows, 20))


def test_of_a_join_of_streams_only_what_can_be_found_is_kept_for_the_changelogs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder = StreamsBuilder()
    strings: Consumed[str, str] = Consumed.with_(Serdes.string(), Serdes.string())
    within = JoinWindows.of_time_difference_with_no_grace(10 * 60_000)
    how = StreamJoined.with_(Serdes.string(), Serdes.string(), Serdes.string())
    left, right = builder.stream("left", strings), builder.stream("right", strings)
    left.join(right, lambda one, other: one + other, within, how).to(
        "out", Produced.with_(Serdes.string(), Serdes.string())
    )
    topics = ("left", "right")
    rows = [process(0, topics[number % 2], number // 2, "k", "v", number * 60_000) for number in range(2000)]
    results = forgetful(builder.build(), rows, monkeypatch)
    assert len(results[SINK]) == sum(2000 - distance for distance in (1, 3, 5, 7, 9))
    assert 20 <= len(results[CHANGELOG]) <= 100, "those of the last segments"
    assert Watched.most <= 400


@pytest.mark.parametrize("there", [False, True], ids=["a new application", "one that has a changelog"])
def test_deletions_are_kept_for_a_changelog_only_if_it_had_something(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = StreamsBuilder()
    strings: Consumed[str, str] = Consumed.with_(Serdes.string(), Serdes.string())
    minutes = builder.stream("lines", strings).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(60_000))
    minutes.count().suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("held")).to_stream(
        lambda windowed, count: windowed.key
    ).to("out", Produced.with_(Serdes.string(), Serdes.long()))
    before = [restore(0, "held-store", 0, "k" + "\0" * 8, None, 0)] if there else []
    rows = [process(0, "lines", number, "k", "v", number * 60_000) for number in range(2000)]
    results = forgetful(builder.build(), before + rows, monkeypatch)
    assert len(results[SINK]) == 1999
    held = [row for row in results[CHANGELOG] if row["topic"] == "app-held-store-changelog"]
    assert len(held) == (2000 if there else 1)
    assert Watched.most <= 500


def test_rows_that_a_failed_backfill_wrote_are_overwritten_by_the_rows_that_hold_without_it() -> None:
    rows = [
        restore(0, "latest", 0, "kept", b"true", 5),
        restore(0, "latest", 1, "kept", b"abandoned", 7, unfinished=1),
        restore(0, "latest", 2, "never-was", b"abandoned", 7, unfinished=1),
        restore(0, "latest", 3, "changed", b"abandoned", 7, unfinished=1),
        process(0, "lines", 0, "changed", "true", 10),
    ]
    results = output(run(host(latest_words()), rows, 10))
    written = {row["key"]: (row["value"], row["timestamp"]) for row in results[CHANGELOG]}
    assert written == {b"kept": (b"true", 5), b"never-was": (None, 0), b"changed": (b"true", 10)}


def test_partition_times_continue_from_what_was_committed() -> None:
    topology = latest_words()
    first = output(run(host(topology), [process(0, "lines", 0, "k", "v", 500)], 1))[OFFSET][0]
    committed = {TopicPartition("lines", 0): CommittedOffset(first["sequence"], first["value"].decode())}
    late = [process(0, "lines", 1, "k", "v", 100)]
    plain = host(topology)
    settings = HostSettings(CONFIG, plain.settings.topics, committed)
    again = output(run(TaskHost(plain.subtopology, settings), late, 1))[OFFSET][0]
    assert again["value"] == first["value"]


def test_results_leave_in_batches_while_records_come_in() -> None:
    consumed = 0

    def taken() -> None:
        nonlocal consumed
        consumed += 1

    rows = [process(0, "lines", offset, "k", "v", offset) for offset in range(5000)]
    results = run(host(exploded(10)), rows, 1000, taken)
    first = next(results)
    assert consumed == 0, "the first chunk is not processed to its end"
    total = len(first)
    for batch in results:
        assert len(batch) <= 20_000
        total += sum(kind == SINK for kind in batch.column("kind").to_pylist())
    assert total == 50_000


def test_large_results_leave_in_smaller_batches() -> None:
    builder = StreamsBuilder()
    text = Serdes.string()
    enlarged = builder.stream("in", Consumed.with_(text, text)).map_values(lambda value: value * 1_000_000)
    enlarged.to("out", Produced.with_(text, text))
    rows = [process(0, "in", offset, "k", "x", offset) for offset in range(100)]
    found = [batch for batch in run(host(builder.build(), out=1), rows, 5) if batch.column("kind")[0].as_py() == SINK]
    assert sum(len(batch) for batch in found) == 100
    assert max(len(batch) for batch in found) <= 40
