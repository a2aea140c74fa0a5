"""A task that fails during a commit, or before its turn in it: the others commit, and its error is reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.common.errors import StreamsError
from tests.actors.rig import LONG, STRING, Rig, producer_of, settle
from tests.actors.test_commit_beside_records import KEYS, begin_commit


def failing_on(bad: str, partitions: int) -> ps.Topology:
    def check(value: str) -> str:
        if value == bad:
            raise ValueError(f"cannot bear {bad}")
        return value

    builder = ps.StreamsBuilder()
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING)).map_values(check)
    stream.group_by_key().count(ps.Materialized.as_("counts")).to_stream().to("out", ps.Produced.with_(STRING, LONG))
    return builder.build()


def in_a_commit(tmp_path: Path) -> tuple[Rig, StreamLoop]:
    """Two tasks, of which each has records in the commit under way."""
    rig = Rig(tmp_path, failing_on("bad", 2), partitions=2)
    loop = rig.running()
    for partition in range(2):
        rig.write("in", *((f"k{number}", "x", 1) for number in range(KEYS)), partition=partition)
    settle(loop)
    begin_commit(rig, loop)
    return rig, loop


def test_a_task_that_fails_while_a_commit_is_under_way_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    rig, loop = in_a_commit(tmp_path)
    rig.write("in", ("k0", "bad", 2), partition=0)
    settle(loop)
    assert "cannot bear bad" in (loop.finished.result() or "")
    assert (rig.committed(0), rig.committed(1)) == (None, KEYS)


def test_the_reported_error_is_the_first_and_not_that_of_the_commit_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, loop = in_a_commit(tmp_path)
    rig.write("in", ("k0", "bad", 2), partition=0)
    while not loop._jobs:
        loop.step()

    def refuse() -> None:
        raise StreamsError("the broker does not take it")

    monkeypatch.setattr(producer_of(loop), "mark", refuse)
    settle(loop)
    assert "cannot bear bad" in (loop.finished.result() or "")
    assert (rig.committed(0), rig.committed(1)) == (None, None)


def test_a_task_that_has_failed_is_not_flushed_when_its_turn_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, loop = in_a_commit(tmp_path)
    commit = loop._commits.under_way
    assert commit is not None
    last = commit.tasks[-1]
    flushed: list[str] = []

    def flush_snapshot() -> Iterator[None]:
        flushed.append("flushed")
        yield

    monkeypatch.setattr(last.task, "flush_snapshot", flush_snapshot)
    rig.write("in", ("k0", "bad", 2), partition=last.id.partition)
    settle(loop)
    assert "cannot bear bad" in (loop.finished.result() or "")
    assert flushed == []
    assert rig.committed(1 - last.id.partition) == KEYS
