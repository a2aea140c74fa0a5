"""Tasks with a store in a database that its builder brings: checkpoints, lost disks, and crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from tests.actors.checkpointed import Threads, checkpoint, metric, records, repository, status_of, threads
from tests.actors.rig import LONG, STRING, Rig, count_of, settle
from tests.state.sqlite_rows import InSqlite

__all__ = ["threads"]
KEYS = [f"k{number}" for number in range(10)]


class Count(ps.Processor[str, str, str, int]):
    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        self._counts: ps.KeyValueStore[str, int] = context.get_state_store("counts")

    def process(self, record: ps.Record[str, str]) -> None:
        self._counts.put(record.key, (self._counts.get(record.key) or 0) + 1)


def counted_in_sqlite() -> ps.Topology:
    builder = ps.StreamsBuilder()
    builder.add_state_store(InSqlite("counts", STRING, LONG))
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(Count, "counts")
    return builder.build()


@pytest.fixture(params=["at_least_once", "exactly_once_v2"])
def rig(tmp_path: Path, threads: Threads, request: pytest.FixtureRequest) -> Rig:
    return Rig(
        tmp_path / "node 1", counted_in_sqlite(), processing_guarantee=request.param,
        state_checkpoint_uri=str(tmp_path / "objects"), state_checkpoint_interval_ms=1000,
    )  # fmt: skip


def test_a_lost_disk_is_restored_from_the_checkpoint_and_the_tail_of_the_changelog(rig: Rig, tmp_path: Path) -> None:
    loop = rig.running()
    rig.write("in", *records(*KEYS))
    checkpoint(rig, loop)
    rig.write("in", *records("k0", "k1", at=2))
    settle(loop)
    rig.stop(loop)
    (taken,) = repository(rig).newest_first("0_0")
    assert taken.stores["counts"].changelog_offset is not None
    assert {name.partition("/")[0] for name in taken.files} == {"own.counts"}

    begun = rig.on_another_node(tmp_path / "node 2").running(epoch=2, slot=2)
    assert [count_of(begun, key) for key in ("k0", "k1", "k2", "k9")] == [2, 2, 1, 1]
    assert status_of(begun).restore_total == 2, "only the tail of the changelog is read"
    assert metric(begun, "checkpoint-restored-bytes") == taken.size


def test_a_task_that_begins_again_reads_on_where_its_database_is(rig: Rig) -> None:
    loop = rig.running()
    rig.write("in", *records(*KEYS))
    rig.commit(loop)
    rig.write("in", *records("k0", at=2))
    rig.stop(loop)
    begun = rig.running(epoch=2, slot=2)
    assert [count_of(begun, key) for key in ("k0", "k9")] == [2, 1]
    assert status_of(begun).restore_total == 0
