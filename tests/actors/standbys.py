"""Standbys of a rig's task, and the changelog records and commits of an active one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.standbys import standby_retries
from penstock.actors.status import StandbyStatus
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import CommittedOffset, Sources, TaskId, TopicPartition
from penstock.tasks.commit_coverage import covering
from tests.actors.rig import APPLICATION, CHANGELOG, Rig, key_query, query, settle

TASK = TaskId(0, 0)
RESUMES_WITHIN_MS = 5_000
READS: Sources = {TASK: frozenset({TopicPartition("in", 0)})}


@pytest.fixture(params=["at_least_once", "exactly_once_v2"])
def rig(tmp_path: Path, request: pytest.FixtureRequest) -> Rig:
    return Rig(tmp_path, processing_guarantee=request.param)


class AtOnce:
    """Probes the brokers in the thread of the loop, so that a step sees the answer."""

    def __init__(self, *_: object) -> None:
        """No threads are started."""

    def submit(self, ask: Callable[[], object]) -> Future[object]:
        asked: Future[object] = Future()
        try:
            asked.set_result(ask())
        except BrokerUnreachableError as error:
            asked.set_exception(error)
        return asked

    def shutdown(self, **_: object) -> None:
        """There are no threads."""


@pytest.fixture(autouse=True)
def probed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby_retries, "ThreadPoolExecutor", AtOnce)


def standby_of(rig: Rig, slot: int = 2) -> StreamLoop:
    loop = rig.loop(slot)
    assigned = loop.assign(1, {}, READS)
    settle(loop)
    assert assigned.result(0) is None
    return loop


def lag(loop: StreamLoop) -> list[StandbyStatus]:
    asked = loop.status()
    if not asked.done():
        loop.step()
    return list(asked.result(0).standbys)


def stale_count(loop: StreamLoop, key: str) -> int | None:
    (found,) = query(loop, replace(key_query(key), stale=True))
    assert found.failure is None, found
    return found.rows[0].value if found.rows else None


def log(rig: Rig, key: str, count: int) -> None:
    """Write to the changelog, as the active task would."""
    producer = rig.clients.producer()
    producer.send(CHANGELOG, key.encode(), count.to_bytes(8, "big"), 1, None, 0)
    producer.flush(1)


def cover(rig: Rig) -> None:
    """Commit all that the changelog has by now, as the active task would; exactly once it is committed already."""
    if not rig.coordinator.exactly_once:
        end = rig.broker.log(TopicPartition(CHANGELOG, 0)).end
        offsets, _ = covering({TopicPartition("in", 0): CommittedOffset(0)}, {"counts": end}, ["counts"])
        rig.broker.group(APPLICATION).offsets.update(offsets)


def follows(loop: StreamLoop) -> bool:
    return loop._standbys._following.active


def rig_of_table(tmp_path: Path) -> Rig:
    builder = ps.StreamsBuilder()
    builder.table(
        "in",
        ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()),
        materialized=ps.Materialized.as_("counts"),
    ).to_stream().to("out")
    return Rig(tmp_path, builder.build({"topology.optimization": "all"}))


def raising(error: Exception) -> Callable[..., Any]:
    def call(*_: object) -> None:
        raise error

    return call
