"""All tasks of a cycle on one executor, without Spark: each record is followed by all that it leads to."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.murmur2 import partition_for
from penstock.common.records import NO_HEADERS
from penstock.pipeline.backfill.order import in_order
from penstock.pipeline.rows import CHANGELOG, OFFSET, READ, REPARTITION, SINK
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.pipeline.task_hosts.cycle_host import CycleHost, topics_apart
from penstock.pipeline.task_hosts.task_host import HostSettings, program_of
from penstock.topology.physical.topology import Topology, internal_topic
from tests.live.bunches import PARTITIONS
from tests.live.comparison import differences, last_differences
from tests.live.partitioned_driver import PartitionedDriver, Written
from tests.pipeline.passes import run_passes
from tests.pipeline.rows import PROCESS, RESTORE, Row, output, run
from tests.pipeline.topologies import (
    foreign_key_chain,
    foreign_key_join,
    foreign_key_join_of_a_branch,
    foreign_key_join_of_rows_that_expire,
    foreign_key_join_with_views,
    self_join,
)

KEYS = 15
UNCACHED = {"application.id": "app", "statestore.cache.max.bytes": 0}
Results = Mapping[str, list[dict[str, Any]]]


def host(topology: Topology, config: Mapping[str, Any] = UNCACHED) -> CycleHost:
    cycle, *_ = in_order(topology)
    repartition = frozenset(internal_topic("app", name) for name in topology.repartition_topics)
    changelogs = frozenset(internal_topic("app", f"{name}-changelog") for name in topology.store_builders)
    counts = TopicCounts(dict.fromkeys(repartition, PARTITIONS), repartition, changelogs)
    inner = frozenset(internal_topic("app", name) for name in cycle.inner)
    return CycleHost(cycle.subtopologies, inner, HostSettings(StreamsConfig.of(config), counts, {}))


def together(it: CycleHost, topology: Topology, rows: list[Row], size: int) -> Results:
    return output(run(it, rows, size))


def in_passes(it: CycleHost, topology: Topology, rows: list[Row], size: int) -> Results:
    cycle, *_ = in_order(topology)
    return run_passes(cycle, it, rows, size)


EACH_WAY = pytest.mark.parametrize("play", [together, in_passes])
MOSTLY_IN_PASSES = pytest.mark.parametrize("play", [pytest.param(together, marks=pytest.mark.long), in_passes])
Play = Callable[[CycleHost, Topology, list[Row], int], Results]


def history(rng: random.Random, topics: Iterable[str], count: int) -> list[Row]:
    """Updates and deletions of some keys; values begin with the foreign key.

    The first has time 1, because librdkafka sends a record of time 0 with time 1."""
    offsets: dict[tuple[str, int], int] = {}
    rows: list[Row] = []
    for time in range(1, count + 1):
        topic, key = rng.choice(list(topics)), b"k%d" % rng.randrange(KEYS)
        value = rng.choice([None, *(b"k%d/%d" % (rng.randrange(KEYS), time) for _ in range(4))])
        task = partition_for(key, PARTITIONS)
        offset = offsets[topic, task] = offsets.get((topic, task), -1) + 1
        headers = [{"key": "n", "value": b"%d" % time}] if rng.random() < 0.2 else None
        rows.append((task, PROCESS, topic, 0, offset, key, value, time, headers))
    return rows


def read_topics(topology: Topology) -> list[str]:
    topics = {topic for sub in topology.subtopologies for source in sub.sources for topic in source.topics}
    return sorted(topics - topology.repartition_topics.keys())


def driven(topology: Topology, rows: Iterable[Row], config: Mapping[str, Any] = UNCACHED) -> PartitionedDriver:
    driver = PartitionedDriver(topology, config, PARTITIONS)
    for task, _, topic, _, _, key, value, timestamp, headers in rows:
        own = tuple((header["key"], header["value"]) for header in headers or ()) or NO_HEADERS
        driver.pipe(topic, task, Written(key, value, timestamp, own))
    return driver


def written(results: Results, kind: str) -> dict[str, list[list[Written]]]:
    topics: dict[str, list[list[Written]]] = {}
    for row in results[kind]:
        key, number = row["key"], row["partition"]
        if number < 0:
            number = 0 if key is None else partition_for(key, PARTITIONS)
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        there = topics.setdefault(row["topic"], [[] for _ in range(PARTITIONS)])
        there[number].append(Written(key, row["value"], row["timestamp"], headers))
    return topics


def found(driver: PartitionedDriver, results: Results) -> list[str]:
    """Returns the differences from what the driver wrote: in results, and in what the changelogs restore to."""
    changelogs = {topic for topic in driver.topics if topic.endswith("-changelog")}
    assert changelogs
    logged: dict[str, list[list[Written]]] = {topic: [[] for _ in range(PARTITIONS)] for topic in changelogs}
    logged |= written(results, CHANGELOG)
    return [
        *differences(driver.topics, written(results, SINK), {"out"}),
        *last_differences(driver.topics, logged, changelogs),
    ]


@MOSTLY_IN_PASSES
@pytest.mark.parametrize("program", [foreign_key_join, self_join, foreign_key_chain, foreign_key_join_of_a_branch])
def test_each_update_is_answered_before_the_next_as_on_the_driver(program: Callable[[], Topology], play: Play) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    topology = program()
    rows = history(random.Random(seed), read_topics(topology), 400)
    driver = driven(topology, rows)
    assert sum(map(len, driver.topics["out"])) > 100
    for size in (1, 1000):
        results = play(host(topology), topology, rows, size)
        assert found(driver, results) == []
        assert results[REPARTITION] == [], "what is read inside leaves nothing"


@EACH_WAY
def test_records_that_lead_to_none_for_another_task_come_in_batches_and_find_the_same(play: Play) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    topology = foreign_key_join_with_views()
    topics = ("left", "right", *["views"] * 8)
    rows = history(random.Random(seed), topics, 600)
    driver = driven(topology, rows)
    assert sum(map(len, driver.topics["viewed"])) > 100
    for size in (1, 1000):
        results = play(host(topology), topology, rows, size)
        assert found(driver, results) == []
        assert list(differences(driver.topics, written(results, SINK), {"viewed"})) == []


def test_only_topics_whose_records_cannot_enter_the_cycle_are_apart() -> None:
    assert apart(foreign_key_join_with_views()) == {"views"}
    assert apart(foreign_key_chain()) == apart(self_join()) == set()
    assert apart(foreign_key_join_of_rows_that_expire()) == set(), "a view may make rows expire"


def apart(topology: Topology) -> set[str]:
    cycle = host(topology)
    return {
        topic
        for sub in cycle.subtopologies
        for topic in topics_apart(program_of(sub, cycle.settings.config), cycle.inner_topics)
    }


def last_values(partitions: list[list[Written]]) -> dict[bytes | None, bytes | None]:
    last = {row.key: row.value for rows in partitions for row in rows}
    return {key: value for key, value in last.items() if value is not None}


@MOSTLY_IN_PASSES
@pytest.mark.parametrize("program", [foreign_key_join, self_join, foreign_key_chain])
def test_with_caches_the_last_value_of_each_key_is_the_same(program: Callable[[], Topology], play: Play) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    topology = program()
    rows = history(random.Random(seed), read_topics(topology), 400)
    driver = driven(topology, rows)
    results = play(host(topology, {"application.id": "app"}), topology, rows, 50)
    assert len(results[SINK]) < sum(map(len, driver.topics["out"])), "caches hold updates back"
    assert last_values(written(results, SINK)["out"]) == last_values(driver.topics["out"]) != {}


@pytest.mark.parametrize(
    "program", [foreign_key_join, self_join, foreign_key_chain, partial(foreign_key_chain, left_cached=False)]
)
def test_passes_release_caches_as_tasks_that_commit_together(program: Callable[[], Topology]) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    topology = program()
    rows = history(random.Random(seed), read_topics(topology), 400)
    cached = {"application.id": "app"}
    both = [
        last_rows(written(play(host(topology, cached), topology, rows, 50), SINK)) for play in (together, in_passes)
    ]
    assert both[0] == both[1] != {}


def last_rows(topics: dict[str, list[list[Written]]]) -> dict[bytes | None, Written]:
    return {row.key: row for rows in topics["out"] for row in rows}


@EACH_WAY
def test_it_continues_from_the_state_that_an_earlier_half_has_left(play: Play) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng, topology = random.Random(seed), foreign_key_join()
    rows = history(rng, ("left", "right"), 400)
    at = rng.randrange(100, 300)
    first = play(host(topology), topology, rows[:at], 50)
    store_of = {internal_topic("app", f"{name}-changelog"): name for name in topology.store_builders}
    state = [
        (row["partition"], RESTORE, store_of[row["topic"]], 0, place, row["key"], row["value"], row["timestamp"], None)
        for place, row in enumerate(first[CHANGELOG])
    ]
    state.sort(key=lambda row: (row[2], row[0], row[4]))
    second = play(host(topology), topology, state + rows[at:], 50)
    halves = {kind: [*first[kind], *second[kind]] for kind in (SINK, CHANGELOG)}
    assert found(driven(topology, rows), halves) == []


@EACH_WAY
def test_the_tasks_report_what_they_read_and_what_to_commit(play: Play) -> None:
    topology = foreign_key_join()
    rows = history(random.Random(1), ("left", "right"), 200)
    results = play(host(topology), topology, rows, 50)
    read = {(row["topic"], row["partition"]): row["sequence"] for row in results[READ]}
    offsets = {(row["topic"], row["partition"]): row["sequence"] for row in results[OFFSET]}
    for topic in ("left", "right"):
        for task in range(PARTITIONS):
            count = sum(row[0] == task and row[2] == topic for row in rows)
            assert read[topic, task] == offsets[topic, task] == count
    inner = {topic for topic, _ in read} - {"left", "right"}
    assert inner == {internal_topic("app", name) for name in topology.repartition_topics}


@EACH_WAY
def test_records_that_leave_the_cycle_name_the_task_that_wrote_them(play: Play) -> None:
    topology = foreign_key_join(counted=True)
    rows = history(random.Random(1), ("left", "right"), 200)
    results = play(host(topology), topology, rows, 50)
    (left,) = (sub.id for sub in topology.subtopologies if "left" in sub.sources[0].topics)
    assert left > 0
    assert {row["task"] for row in results[REPARTITION]} == {left << 16 | number for number in range(PARTITIONS)}
    assert {row["topic"] for row in results[REPARTITION]} == {"app-counted-repartition"}
