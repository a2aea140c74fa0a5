"""The files of a stage, written by attempts of which some are killed and some come twice; without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill.row_files import FileReader, StageFile, written_to
from penstock.pipeline.backfill.stage_files import StageWriter, Unit
from penstock.pipeline.backfill.work import StageWork
from penstock.pipeline.rows import CHANGELOG, DROPPED, OFFSET, OUTPUT_ARROW, READ, REPARTITION, SINK
from penstock.pipeline.task_hosts.contracts import StageInput
from tests.pipeline.rows import RowsInput, process

Rows = list[tuple[Any, ...]]


def echo(tasks: Sequence[int], given: StageInput) -> Iterator[pa.RecordBatch]:
    """A host that writes each record to a sink, a repartition topic and a changelog, and reports."""
    for task in tasks:
        for chunk in given.open([task]).chunks():
            for batch in chunk.partitions[0]:
                for value in batch.values:
                    yield rows([(kind, task, kind, 0, 0, b"k", value, 1, None) for kind in KINDS])
    yield rows([(OFFSET, 0, "in", 1, 7, None, b"time", 0, None), (READ, 0, "in", 1, 5, None, b"", 0, None)])
    yield rows([(DROPPED, 0, "", 1, 2, None, b"", 0, None)])


KINDS = (SINK, REPARTITION, CHANGELOG)


def rows(of: Rows) -> pa.RecordBatch:
    filled = [(*row, None) for row in of]  # none of a pass over a cycle
    each = zip(zip(*filled, strict=True), OUTPUT_ARROW, strict=True)
    columns = [pa.array(column, field.type) for column, field in each]
    return pa.RecordBatch.from_arrays(columns, schema=OUTPUT_ARROW)


class Place:
    """A stage's place in a local folder."""

    def __init__(self, folder: Path) -> None:
        self.location = ObjectLocation(str(folder))
        self.objects = self.location.open()
        self.work = StageWork(self.objects, 1, "run-7")

    def run(self, *together: list[int], run_tasks: Any = echo) -> list[pa.RecordBatch]:
        numbers = [task for tasks in together for task in tasks]
        records = [process(task, "in", offset, "k", f"{offset}", 1) for task in numbers for offset in range(5)]
        units = [Unit(tuple(tasks), 0, RowsInput(records, 3)) for tasks in together]
        writer = StageWriter(run_tasks, units, self.location, self.work.prefix)
        return list(writer.run(batches_of_numbers(len(units))))

    def values(self, kind: str) -> list[bytes]:
        files = (self.work.manifest() or self.work.commit()).files(kind)
        read = FileReader(self.location, files).run(batches_of_numbers(len(files)))
        return [value for batch in read for value in batch.column("value").to_pylist()]

    def names(self) -> list[str]:
        return [info.name for info in self.objects.list()]


def batches_of_numbers(count: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"id": list(range(count))})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_each_kind_of_rows_is_a_file_in_order_and_reports_are_in_the_note(place: Place) -> None:
    (answer,) = place.run([2, 4])
    assert answer.to_pylist() == [{"first_task": 2}]
    (finished,) = place.work.finished()
    assert (finished.tasks, finished.rows, finished.read, finished.dropped) == ([2, 4], 10, {"in": 5}, 2)
    assert finished.offsets == [("in", 1, "time")]
    assert {kind: file.rows for kind, file in finished.files.items()} == dict.fromkeys(KINDS, 10)
    assert place.values(SINK) == [b"0", b"1", b"2", b"3", b"4"] * 2


def test_of_two_attempts_the_first_counts_and_the_other_leaves_nothing(place: Place) -> None:
    place.run([1])
    first = place.work.finished()
    before = place.names()
    place.run([1])
    assert place.names() == before
    assert place.work.finished() == first


def test_an_attempt_whose_note_the_client_sends_twice_keeps_its_files(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = type(place.objects).create

    def sent_twice(objects: Any, name: str, content: bytes) -> None:
        create(objects, name, content)  # the answer is lost
        create(objects, name, content)

    monkeypatch.setattr(type(place.objects), "create", sent_twice)
    place.run([1])
    assert place.values(REPARTITION) == [b"0", b"1", b"2", b"3", b"4"]


def test_an_attempt_that_fails_leaves_no_note(place: Place) -> None:
    def fails(tasks: Sequence[int], given: StageInput) -> Iterator[pa.RecordBatch]:
        yield from echo(tasks, given)
        raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        place.run([1], run_tasks=fails)
    assert place.work.finished() == []
    place.run([1])
    assert place.values(REPARTITION) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_file_that_has_changed_is_found_by_its_hash(place: Place) -> None:
    place.run([1])
    (finished,) = place.work.finished()
    place.objects.put(finished.files[SINK].name, b"PAR1 something else PAR1")
    with pytest.raises(StreamsError, match=r"whose hash .* is damaged.* without --resume"):
        place.values(SINK)


def test_the_rows_that_tasks_have_taken_are_counted_for_the_driver(place: Place) -> None:
    assert place.work.taken() == 0
    place.run([1, 2])
    assert place.work.taken() == 10
    place.work.begin()
    assert place.work.taken() == 0


def shuffled(place: Place, writers: dict[int, list[int]]) -> list[list[StageFile]]:
    """Has each writer send records with these times to partitions 0 to 2 of two topics in turn; returns its files."""

    def send(tasks: Sequence[int], given: StageInput) -> Iterator[pa.RecordBatch]:
        (writer,) = tasks
        for place, time in enumerate(writers[writer]):
            value = b"%d" % place
            yield rows(
                [(REPARTITION, writer, topic, place % 3, place, b"k", value, time, None) for topic in ("a", "b")]
            )

    place.run(*([writer] for writer in writers), run_tasks=send)
    return place.work.commit().files(REPARTITION)


def test_a_task_reads_only_the_rows_that_are_for_it_in_the_order_of_each_writer(place: Place) -> None:
    files = shuffled(place, {0: list(range(10)), 1: [7, 7, 7]})
    assert [sorted({(it.topic, it.partition, it.rows) for it in file.groups})[:3] for (file,) in files] == [
        [("a", 0, 4), ("a", 1, 3), ("a", 2, 3)],
        [("a", 0, 1), ("a", 1, 1), ("a", 2, 1)],
    ]
    target = TopicPartition("b", 1)
    found = [list(writer) for writer in written_to(place.objects, files, target)]
    assert [[(it.partition, it.values, it.offsets, it.timestamps) for it in own] for own in found] == [
        [(target, [b"1", b"4", b"7"], [1, 4, 7], [1, 4, 7])],
        [(target, [b"1"], [1], [7])],
    ]
    assert written_to(place.objects, files, TopicPartition("c", 1)) == []


def test_a_damaged_row_group_is_found_by_its_checksum(place: Place) -> None:
    ((file,),) = shuffled(place, {0: list(range(100))})
    content = bytearray(place.objects.read(file.name))
    content[content.index(b"k") + 2] ^= 1
    for at in range(200, len(content) // 2):
        content[at] ^= 0xFF
    place.objects.put(file.name, bytes(content))
    (writer,) = written_to(place.objects, [[file]], TopicPartition("a", 0))
    with pytest.raises(StreamsError, match=r"is damaged.* without --resume"):
        list(writer)
