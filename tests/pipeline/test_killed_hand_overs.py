"""Kills of Spark's driver and workers while a backfill hands over checkpoints: all of a run counts, or nothing."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.checkpoints.repository import CheckpointRepository
from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.objects.storage import ObjectLocation
from penstock.state.disk.task_stores import open_task_stores
from tests.pipeline.killed_driver import MOMENTS
from tests.pipeline.test_resumed import EXPECTED, LINES, RESUME, Interrupted, running
from tests.waiting import PATIENCE_S

KILLS = 20
OF_WORKERS = ("worker", "upload", "uploaded")
BY_TIME = "at some time"


@pytest.fixture
def it(tmp_path: Path, broker: str, topic_name: Callable[[str], str]) -> Interrupted:
    return Interrupted(tmp_path, broker, topic_name("killed"))


def killed(it: Interrupted, where: str, rng: random.Random) -> bool:
    """Continues the backfill, which dies there, or comes to its end: then returns False."""
    for left in ("order", "driver"):
        (it.folder / left).unlink(missing_ok=True)
    if where in OF_WORKERS:
        it.order(where)
    elif where in MOMENTS:
        (it.folder / "driver").write_text(where)
    with running(it, "--master", "local[2]", "--resume") as process:
        try:
            output, _ = process.communicate(timeout=rng.uniform(5, 40) if where == BY_TIME else PATIENCE_S)
        except subprocess.TimeoutExpired:
            assert where == BY_TIME
            return True
    assert process.returncode in (0, 1, -9), output
    return process.returncode != 0


def handed_over(it: Interrupted, folder: Path) -> dict[str, int]:
    """Returns the counts in the stores of the newest hand-over; empty without one. All of its files must be whole."""
    repository = CheckpointRepository(ObjectLocation(str(it.folder / "checkpoints")).open(), it.lines)
    newest, found = repository.newest_hand_over(), dict[str, int]()
    builders = [it.app().topology.store_builders["counts"]]
    for task in newest.tasks if newest is not None else ():
        checkpoint = newest.checkpoint(task) if newest is not None else None
        assert checkpoint is not None
        repository.fetch(checkpoint, folder / task)
        stores = open_task_stores(folder / task, builders)
        rows = stores.store("counts").scan(None, None)
        found.update((key.decode(), int.from_bytes(row[8:], "big")) for key, row in rows)
        stores.close()
    return found


def committed(it: Interrupted) -> list[int]:
    offsets = it.admin.committed(it.lines)
    return [offsets[at].offset for number in range(4) if (at := TopicPartition(it.lines, number)) in offsets]


def is_whole(it: Interrupted, times: int, folder: Path) -> None:
    """The offsets are those of the history that was handed over, of ``times`` sendings; its stores have all of it."""
    assert it.counts() == {key: count * times for key, count in EXPECTED.items()}
    assert committed(it) == [len(LINES) // 4 * times] * 4
    assert handed_over(it, folder) == it.counts()
    it.app().check()


@pytest.mark.submission
@pytest.mark.usefixtures("shared_spark")
def test_a_worker_dies_after_an_upload_and_the_driver_after_the_manifest(it: Interrupted, tmp_path: Path) -> None:
    it.order("uploaded")
    with pytest.raises(StreamsError, match="sub-topology 1 failed over history"):
        it.backfill()
    assert (handed_over(it, tmp_path / "0"), committed(it)) == ({}, [])
    assert killed(it, "after the manifest", random.Random(0))
    assert (handed_over(it, tmp_path / "1"), committed(it)) == (EXPECTED, [])
    with pytest.raises(StreamsError, match="is unfinished"):
        it.app().check()
    assert it.backfill(RESUME).written == {}, "results are not written again"
    is_whole(it, 1, tmp_path / "2")


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark")
def test_twenty_kills_lose_nothing_double_nothing_and_hand_over_nothing_by_halves(
    it: Interrupted, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng, times, kills, runs = random.Random(seed), 1, Counter[str](), 0
    while kills.total() < KILLS:
        where, runs = rng.choice([*OF_WORKERS, *MOMENTS, BY_TIME, BY_TIME]), runs + 1
        if killed(it, where, rng):
            kills[where] += 1
            counts = handed_over(it, tmp_path / f"{runs}")
            # The offsets follow the manifest: what is committed is handed over, and the next run may be too.
            done = {key: count * (times - 1) for key, count in EXPECTED.items() if times > 1}
            both = {key: count * times for key, count in EXPECTED.items()}
            assert counts in (done, both), where
            if committed(it) == [len(LINES) // 4 * times] * 4:
                assert counts == both, where
        else:
            is_whole(it, times, tmp_path / f"{runs}")
            it.send()
            times += 1
    it.backfill(RESUME)
    is_whole(it, times, tmp_path / "end")
    assert it.work() == []
    print("kills", dict(kills), "in", runs, "runs over", times, "histories")
