"""Serdes that cannot answer for a while: the task waits or goes back, others continue, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.serdes import Serde
from penstock.common.topics import NewTopic
from tests.actors.rig import STRING, Rig, settle

GUARANTEES = ["at_least_once", "exactly_once_v2"]


class Registry:
    """A schema registry: it does not answer for values that contain one of the texts in ``down``."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.strings = Serde("registered", self.serialize, self.deserialize)

    def _ask(self, text: str) -> None:
        if any(each in text for each in self.down):
            raise ps.RetriableError("the schema registry does not answer")

    def serialize(self, value: Any) -> bytes:
        self._ask(f"write {value}")
        return str(value).encode()

    def deserialize(self, data: bytes) -> str:
        self._ask(f"read {data.decode()}")
        return data.decode()


def copying(state_dir: Path, registry: Registry, guarantee: str, partitions: int = 2, **config: Any) -> Rig:
    builder = ps.StreamsBuilder()
    serdes = ps.Consumed.with_(STRING, registry.strings)
    builder.stream("in", serdes).to("out", ps.Produced.with_(STRING, registry.strings))
    return Rig(state_dir, builder.build(), partitions=partitions, processing_guarantee=guarantee, **config)


def written(rig: Rig) -> list[str]:
    return [(record.value or b"").decode() for record in rig.broker.records("out")]


def waits(loop: Any) -> list[str | None]:
    asked = loop.status()
    settle(loop)
    return [task.waits_for for task in asked.result().tasks]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_one_partition_waits_and_the_other_task_continues(guarantee: str, tmp_path: Path) -> None:
    registry = Registry()
    rig = copying(tmp_path, registry, guarantee)
    loop = rig.running()
    registry.down = {"read slow"}
    with capture_logs() as lines:
        rig.write("in", ("k", "slow 1", 1), ("k", "slow 2", 2), partition=0)
        rig.write("in", ("k", "fast", 1), partition=1)
        settle(loop)
        for _ in range(100):
            rig.commit(loop)
        (reason, nothing) = waits(loop)
    assert written(rig) == ["fast"]
    assert (rig.committed(0) or 0, rig.committed(1)) == (0, 1)
    assert reason == "in-0 from offset 0 on: the schema registry does not answer"
    assert nothing is None
    logged = [line for line in lines if line["event"].startswith("records wait for a serde")]
    assert 3 <= len(logged) <= 5, "in a hundred seconds one each half minute"
    assert (logged[0]["topic"], logged[0]["partition"], logged[0]["offset"]) == ("in", 0, 0)
    registry.down = set()
    for _ in range(3):
        rig.commit(loop)
    assert sorted(written(rig)) == ["fast", "slow 1", "slow 2"]
    assert (rig.committed(0), waits(loop)) == (2, [None, None])


def test_a_partition_that_waits_is_fetched_no_further_than_others(tmp_path: Path) -> None:
    """A registry may be away for hours: the actor's only task must not take in the whole topic meanwhile."""
    registry = Registry()
    rig = copying(tmp_path, registry, "at_least_once", partitions=1, buffered_records_per_partition=10)
    loop = rig.running()
    registry.down = {"read"}
    rig.write("in", *(("k", str(number), 1) for number in range(5000)))
    for _ in range(100):
        loop.step()
    (hosted,) = loop._running
    assert hosted.queued()["in"] < 1000
    registry.down = set()
    rig.commit(loop)
    settle(loop)
    assert written(rig) == [str(number) for number in range(5000)]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_stop_while_a_partition_waits_loses_nothing(guarantee: str, tmp_path: Path) -> None:
    registry = Registry()
    rig = copying(tmp_path, registry, guarantee)
    loop = rig.running()
    rig.write("in", ("k", "a", 1), partition=0)
    rig.commit(loop)
    registry.down = {"read slow"}
    rig.write("in", ("k", "slow", 2), ("k", "b", 3), partition=0)
    settle(loop)
    rig.stop(loop)
    assert rig.committed(0) == 1
    registry.down = set()
    loop = rig.running(epoch=2)
    rig.commit(loop)
    assert written(rig) == ["a", "slow", "b"]
    assert rig.committed(0) == 3


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_pause_and_a_revocation_while_a_partition_waits(guarantee: str, tmp_path: Path) -> None:
    registry = Registry()
    rig = copying(tmp_path, registry, guarantee)
    loop = rig.running()
    registry.down = {"read slow"}
    rig.write("in", ("k", "slow", 2), partition=0)
    settle(loop)
    loop.pause(True)
    rig.commit(loop)
    loop.pause(False)
    rig.commit(loop)
    assigned = rig.assign(loop, 2, TaskId(0, 1))
    settle(loop)
    assert assigned.done()
    registry.down = set()
    assigned = rig.assign(loop, 3, TaskId(0, 0), TaskId(0, 1))
    settle(loop)
    rig.commit(loop)
    assert written(rig) == ["slow"]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_the_serde_of_a_sink_makes_the_task_go_back_until_it_answers(
    guarantee: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.common.patience.time.sleep", lambda s: None)
    monkeypatch.setattr("penstock.actors.task_host.task_collector._PATIENCE_S", 0.0)
    registry = Registry()
    rig = copying(tmp_path, registry, guarantee, partitions=1)
    loop = rig.running()
    rig.write("in", ("k", "a", 1), partition=0)
    rig.commit(loop)
    registry.down = {"write slow"}
    with capture_logs() as lines:
        rig.write("in", ("k", "b", 2), ("k", "slow", 3), ("k", "c", 4), partition=0)
        for _ in range(5):
            rig.clock.now_ms += 6000
            for _ in range(50):
                loop.step()
    assert any(line["event"] == "a serde cannot answer, going back to the last commit" for line in lines)
    assert rig.committed(0) == 1
    registry.down = set()
    for _ in range(5):
        rig.clock.now_ms += 6000
        settle(loop)
    assert not loop.finished.done()
    assert rig.committed(0) == 4
    results = written(rig)
    if guarantee == "exactly_once_v2":
        assert results == ["a", "b", "slow", "c"]
    else:
        assert [text for text in results if text != "b"] == ["a", "slow", "c"]


def test_a_global_store_waits_for_its_serde_before_tasks_begin_and_after(tmp_path: Path) -> None:
    registry = Registry()
    builder = ps.StreamsBuilder()
    kept: ps.Materialized[str, str] = ps.Materialized.as_("kept")
    names = builder.global_table("names", ps.Consumed.with_(STRING, registry.strings), kept)
    joined = builder.stream("in", ps.Consumed.with_(STRING, STRING)).join(names, lambda key, value: key, _second)
    joined.to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build())
    rig.clients.admin().create_topics([NewTopic("names", 1)])
    rig.write("names", ("k", "one", 1), partition=0)
    loop = rig.running(TaskId(1, 0))
    registry.down = {"read two"}
    rig.write("names", ("k", "two", 2), partition=0)
    rig.commit(loop)
    rig.write("in", ("k", "v", 3), partition=0)
    rig.commit(loop)
    assert written(rig) == ["one"]
    registry.down = set()
    rig.commit(loop)
    rig.commit(loop)
    rig.write("in", ("k", "v", 4), partition=0)
    rig.commit(loop)
    assert written(rig) == ["one", "two"]
    assert TopicPartition("names", 0)


def _second(left: str, right: str) -> str:
    return right
