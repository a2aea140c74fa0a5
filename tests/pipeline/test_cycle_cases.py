"""Parity cases with joins by foreign key through all stages of their plans, without Spark: as on the driver."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.records import NO_HEADERS
from penstock.pipeline.backfill.order import StageSubtopologies, in_order
from penstock.pipeline.backfill.unrolling import unrolled
from penstock.pipeline.rows import CHANGELOG, REPARTITION, SINK, headers_row
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.pipeline.task_hosts.cycle_host import CycleHost
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost
from penstock.topology.physical.topology import internal_topic
from tests.live.bunches import PARTITIONS, Bunch, Case
from tests.live.comparison import differences, last_differences
from tests.live.partitioned_driver import PartitionedDriver, Written
from tests.live.play import excluded, halves
from tests.live.rig import configuration
from tests.live.shapes import of_shapes
from tests.parity import corpus
from tests.pipeline.passes import run_passes
from tests.pipeline.rows import PROCESS, Row, output, run
from tests.pipeline.test_cycle_host import written

APPLICATION = "app"


def joins_by_foreign_key(case: Case) -> bool:
    return any(step["op"] == "foreign_key" for step in case["topology"]) and excluded(case) is None


CASES = [
    case for of_shape in of_shapes(corpus.FILES).values() for case in list(filter(joins_by_foreign_key, of_shape))[::4]
]


def results_of(
    stage: StageSubtopologies, rows: list[Row], config: StreamsConfig, topics: TopicCounts, passes: bool
) -> dict[str, list[dict[str, Any]]]:
    read = {topic for sub in stage.subtopologies for source in sub.sources for topic in source.topics}
    read |= {internal_topic(APPLICATION, topic) for topic in read}
    own = [row for row in rows if row[2] in read]
    if stage.inner:
        inner = frozenset(internal_topic(APPLICATION, topic) for topic in stage.inner)
        together = CycleHost(stage.subtopologies, inner, HostSettings(config, topics, {}))
        if passes and unrolled(stage) is not None:
            return run_passes(stage, together, own, 10)
        return output(run(together, own, 10))
    (subtopology,) = stage.subtopologies
    return output(run(TaskHost(subtopology, HostSettings(config, topics, {})), own, 10))


EACH_WAY = [(case, True) for case in CASES] + [(case, False) for case in CASES[::8]]
"""Cases with True if cycles run in passes, else all of their tasks together."""


@pytest.mark.parametrize(("case", "passes"), EACH_WAY, ids=lambda it: it if isinstance(it, bool) else it["name"])
def test_all_stages_one_behind_the_other_do_what_the_driver_does(case: Case, passes: bool) -> None:
    bunch = Bunch("one", case["config"], (case,), False)
    settings, topology = configuration(bunch, APPLICATION), bunch.built.topology
    driver, config = PartitionedDriver(topology, settings, PARTITIONS), StreamsConfig.of(settings)
    rows: list[Row] = []
    offsets: dict[tuple[str, int], count[int]] = defaultdict(count)
    for it in (record for half in halves(bunch, case, in_order=True) for record in half.records):
        driver.pipe(it.topic, it.partition, Written(it.key, it.value, it.timestamp, tuple(it.headers) or NO_HEADERS))
        place = next(offsets[it.topic, it.partition])
        headers = headers_row(it.headers)
        rows.append((it.partition, PROCESS, it.topic, 0, place, it.key, it.value, it.timestamp, headers))
    repartition, changelogs = (
        frozenset(internal_topic(APPLICATION, name) for name in names)
        for names in (topology.repartition_topics, [f"{name}-changelog" for name in topology.store_builders])
    )
    topics = TopicCounts(dict.fromkeys(repartition | bunch.topics, PARTITIONS), repartition, changelogs)
    results: dict[str, list[dict[str, Any]]] = {SINK: [], CHANGELOG: []}
    stages = in_order(topology)
    assert any(stage.inner for stage in stages)
    for stage in stages:
        found = results_of(stage, rows, config, topics, passes)
        for row in found[REPARTITION]:
            to = (row["partition"], PROCESS, row["topic"], row["task"], row["sequence"])
            rows.append((*to, row["key"], row["value"], row["timestamp"], row["headers"]))
        for kind, each in results.items():
            each += found[kind]
    sinks = {topic for topic, _, _ in bunch.built.sinks}
    assert list(differences(driver.topics, written(results, SINK), sinks)) == []
    logged = changelogs & driver.topics.keys()
    empty: dict[str, list[list[Written]]] = {topic: [[] for _ in range(PARTITIONS)] for topic in logged}
    assert list(last_differences(driver.topics, empty | written(results, CHANGELOG), set(logged))) == []
