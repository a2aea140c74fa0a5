"""The place of a backfill's work: one run owns it, and a process that was killed can be continued."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row
from typing_extensions import override

from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, ObjectStoreError, StreamsError
from penstock.common.topics import NewTopic
from penstock.objects.memory import MemoryObjects
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill import hand_over
from penstock.pipeline.backfill.hand_over import KafkaHandOver, RecordWriter
from penstock.pipeline.backfill.planned_offsets import PlannedOffsets, StageOffsets
from penstock.pipeline.backfill.stage_files import FinishedTasks
from penstock.pipeline.backfill.stage_rows import Consume, StageRows
from penstock.pipeline.backfill.work import Run, RunManifest, StageWork, new_run_id
from penstock.pipeline.rows import OUTPUT_ARROW
from penstock.testing.fake_clients import FakeClients
from tests.s3 import S3Server

pytestmark = pytest.mark.xdist_group("s3 of works")

OFFSETS = PlannedOffsets(
    [StageOffsets([("lines", 0, 3, 9)], {"counts": [("c", 0, 0, 4)]}, {"counts": []})],
    [("lines", 0, 3, "m")],
    [("lines", 0, 9)],
    "abc",
    [],
)


def manifest(**options: str) -> RunManifest:
    return RunManifest(new_run_id(), "app", "hash", options, OFFSETS, {"lines": "id"})


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectLocation:
    if request.param == "local":
        return ObjectLocation(str(tmp_path))
    server: S3Server = request.getfixturevalue("s3_server")
    return server.location(f"backfills/{uuid.uuid4().hex}")


def test_a_run_that_was_begun_is_found_by_another_process_with_its_plan(place: ObjectLocation) -> None:
    assert Run.unfinished(place) is None
    begun = Run.begin(place, manifest(until="latest"))
    found = Run.unfinished(place)
    assert found is not None
    assert (found.number, found.manifest) == (begun.number, begun.manifest)
    assert found.manifest.offsets == OFFSETS


def test_a_new_run_deletes_the_work_of_the_last_one_which_then_hands_nothing_over(place: ObjectLocation) -> None:
    first = Run.begin(place, manifest())
    place.open().put(f"{first.stage(1).prefix}rows.parquet", b"")
    first.refuse_if_superseded()
    second = Run.begin(place, manifest())
    assert [info.name for info in place.open().list(f"{first.manifest.folder}/")] == []
    second.refuse_if_superseded()
    with pytest.raises(ApplicationStateError, match="another backfill of application 'app' has begun meanwhile"):
        first.refuse_if_superseded()


def test_a_worker_that_outlives_its_run_writes_into_no_other(place: ObjectLocation) -> None:
    objects = place.open()
    first = Run.begin(place, manifest())
    note = f"{first.stage(1).prefix}finished/0.json"
    Run.begin(place, manifest()).delete()
    objects.put(note, msgspec.json.encode(FinishedTasks([0], 1, {}, {}, 0, [])))  # late
    third = Run.begin(place, manifest())
    assert third.number == first.number
    assert third.stage(1).finished() == []
    assert objects.info(note) is None


def test_of_two_processes_that_continue_a_run_the_later_one_hands_over(place: ObjectLocation) -> None:
    first = Run.begin(place, manifest())
    first.stage(1).commit()
    found = Run.unfinished(place)
    assert found is not None
    second = found.taken_over()
    assert second.stage(1).manifest() is not None
    second.refuse_if_superseded()
    with pytest.raises(ApplicationStateError, match="another backfill of application 'app' has begun meanwhile"):
        first.refuse_if_superseded()
    second.delete()
    assert list(place.open().list()) == []


def test_a_worker_that_wakes_up_after_its_run_was_taken_over_or_has_ended_writes_nothing_more(
    place: ObjectLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_over, "_LOOK_EACH_S", 0.0)
    clients, taken = FakeClients("app"), list[Run]()
    clients.admin().create_topics([NewTopic("out", 1)])

    def written(run: Run, after_one_batch: Callable[[], None]) -> int:
        """Returns the number of records in the topic when the writer of ``run`` has ended: it writes two batches."""

        def batches() -> Iterator[pa.RecordBatch]:
            for _ in range(2):
                row = {"topic": "out", "key": b"k", "value": b"v", "timestamp": 1, "partition": 0}
                yield pa.RecordBatch.from_pylist([row], schema=OUTPUT_ARROW)
                after_one_batch()

        owner = pickle.loads(pickle.dumps(run.owner))  # as executors have it
        with suppress(ApplicationStateError):
            list(RecordWriter(clients, owner).run(batches()))
        return len(clients.broker.records("out"))

    first = Run.begin(place, manifest())
    assert written(first, lambda: None) == 2
    assert written(first, lambda: taken.append(first.taken_over())) == 3
    assert written(first, lambda: None) == 3, "another process continues the run"
    assert written(taken[0], taken[0].delete) == 4


class Failing(StageRows):
    """Rows that cannot be written: Spark reports the error of a worker."""

    @override
    def consumed(self, consume: Consume, schema: str) -> list[Row]:
        raise PySparkException("penstock.common.errors.KafkaError: no broker\n")


def test_advice_to_resume_is_given_only_if_no_other_process_has_taken_the_run_over(place: ObjectLocation) -> None:
    clients, run = FakeClients("app"), Run.begin(place, manifest())
    config = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "none"})
    hands_over = KafkaHandOver(config, clients, clients.admin(), {}, "", run.owner)
    rows = Failing(None, place, [])  # type: ignore[arg-type]  # needs no Spark
    with pytest.raises(StreamsError, match="write to Kafka; run it again with --resume: KafkaError: no broker"):
        hands_over.results(rows)
    run.taken_over()
    with pytest.raises(ApplicationStateError, match=r"^another backfill of application 'app' has begun meanwhile"):
        hands_over.results(rows)


def test_what_is_handed_over_leaves_nothing(place: ObjectLocation) -> None:
    run = Run.begin(place, manifest())
    run.stage(1).commit()
    assert not run.hand_over_begun()
    run.begin_hand_over()
    assert run.hand_over_begun()
    run.delete()
    assert list(place.open().list()) == []


def test_a_stage_is_finished_when_its_manifest_is_there_and_by_one_process_alone() -> None:
    objects = MemoryObjects()
    work = StageWork(objects, 2, "run-1")
    assert work.manifest() is None
    assert work.commit().finished == []
    assert work.manifest() is not None
    assert StageWork(objects, 2, "run-1").commit().finished == []  # as a request that the client repeats
    objects.put(f"{work.prefix}finished/0.json", msgspec.json.encode(FinishedTasks([0], 1, {}, {}, 0, [])))
    with pytest.raises(ApplicationStateError, match="another process works on this backfill"):
        StageWork(objects, 2, "run-1").commit()


def test_tasks_that_are_finished_twice_are_never_counted_twice(place: ObjectLocation) -> None:
    work = Run.begin(place, manifest()).stage(1)
    for name, tasks in (("a", [1, 2]), ("b", [2, 3])):
        finished = FinishedTasks(tasks, 1, {}, {}, 0, [])
        place.open().put(f"{work.prefix}finished/{name}.json", msgspec.json.encode(finished))
    with pytest.raises(StreamsError, match="tasks 2 are finished twice"):
        work.commit()


def test_a_plan_of_another_version_is_named(place: ObjectLocation) -> None:
    Run.begin(place, manifest())
    place.open().put("runs/00000000000000000009.json", b'{"format": 99}')
    with pytest.raises(StreamsError, match="not readable by this version"):
        Run.unfinished(place)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ObjectStoreError, match="file/work"):
        Run.begin(ObjectLocation(str(tmp_path / "file" / "work")), manifest())
