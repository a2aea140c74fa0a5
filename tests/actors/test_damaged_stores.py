"""Files of a store are damaged while it is closed: the actor that reads them first ends, no handler is asked, and the
next actor that opens the store restores it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.store_queries import QueryFailure, StoreQuery
from penstock.common.handlers import UncaughtExceptionResponse
from penstock.common.ids import TaskId
from penstock.state.queries import KeyQuery
from tests.actors.rig import STRING, Rig, count_of, settle

TASK = TaskId(0, 0)
KEYS = [f"{number:0200}" for number in range(2000)]


def ask_nobody(exception: BaseException) -> UncaughtExceptionResponse:
    raise AssertionError(f"was asked about {exception}")


def counted(state_dir: Path, guarantee: str, *, logged: bool = True) -> Rig:
    """Returns a rig that has counted every key once, with the rows in files."""
    builder = ps.StreamsBuilder()
    counts: ps.Materialized[str, int] = ps.Materialized.as_("counts")
    counts = counts if logged else counts.with_logging_disabled()
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key().count(counts)
    rig = Rig(state_dir, builder.build(), processing_guarantee=guarantee)
    rig.spec = replace(rig.spec, uncaught_exception_handler=ask_nobody)
    for epoch in (1, 2):  # what a process leaves in a log, the next puts into a file
        loop = rig.running(epoch=epoch)
        if epoch == 1:
            rig.write("in", *((key, "x", 1) for key in KEYS))
            settle(loop, at_most=20_000)
        rig.commit(loop)
        rig.stop(loop)
    return rig


def damage(state_dir: Path) -> None:
    tables = [file for file in state_dir.rglob("*.sst") if file.stat().st_size > 10_000]
    assert tables, "else nothing is damaged"
    for table in tables:
        data = bytearray(table.read_bytes())
        for at in range(len(data) // 4, len(data) // 2, 512):
            data[at] ^= 0xFF
        table.write_bytes(data)


def assert_continues(rig: Rig, epoch: int, each: int) -> None:
    loop = rig.running(epoch=epoch)
    settle(loop, at_most=20_000)
    rig.commit(loop)
    assert {count_of(loop, key) for key in KEYS} == {each}
    rig.stop(loop)


def error_of(loop: StreamLoop) -> str:
    return loop.finished.result(timeout=0) or "no error"


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_store_that_a_record_finds_damaged_is_restored_by_the_replacement_actor(
    tmp_path: Path, guarantee: str
) -> None:
    rig = counted(tmp_path, guarantee)
    damage(tmp_path)
    rig.write("in", *((key, "x", 1) for key in KEYS))
    loop = rig.running(epoch=3)
    settle(loop, at_most=20_000)
    assert "is corrupt" in error_of(loop)
    assert loop.uncaught.response is UncaughtExceptionResponse.REPLACE_ACTOR
    assert_continues(rig, 4, 2)


def test_damage_found_by_a_query_ends_the_actor_too_and_the_query_may_be_repeated(tmp_path: Path) -> None:
    rig = counted(tmp_path, "at_least_once")
    damage(tmp_path)
    loop = rig.running(epoch=3)
    answers = loop.query([StoreQuery(TASK, "counts", KeyQuery(key.encode())) for key in KEYS])
    settle(loop)
    failures = {answer.failure for answer in answers.result(timeout=0)} - {None}
    assert failures == {QueryFailure.NOT_ACTIVE}
    assert "is corrupt" in error_of(loop)
    assert_continues(rig, 4, 1)


def test_without_a_changelog_the_damage_is_the_users_to_mend(tmp_path: Path) -> None:
    rig = counted(tmp_path, "at_least_once", logged=False)
    heard: list[BaseException] = []

    def handler(exception: BaseException) -> UncaughtExceptionResponse:
        heard.append(exception)
        return UncaughtExceptionResponse.SHUTDOWN_CLIENT

    rig.spec = replace(rig.spec, uncaught_exception_handler=handler)
    damage(tmp_path)
    rig.write("in", *((key, "x", 1) for key in KEYS))
    loop = rig.running(epoch=3)
    settle(loop, at_most=20_000)
    assert loop.uncaught.response is UncaughtExceptionResponse.SHUTDOWN_CLIENT
    assert [type(error) for error in heard] == [ps.StateStoreCorruptError]
