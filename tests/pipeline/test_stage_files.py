"""The files of a stage, written by attempts of which some are killed and some come twice; without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common.errors import StreamsError
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill.stage_files import FileReader, StageWriter
from penstock.pipeline.backfill.work import StageWork
from penstock.pipeline.rows import CHANGELOG, DROPPED, INPUT_ARROW, OFFSET, OUTPUT_ARROW, READ, REPARTITION, SINK
from tests.pipeline.rows import batches, process

Rows = list[tuple[Any, ...]]


def given(tasks: Iterable[int], size: int = 3) -> Iterator[pa.RecordBatch]:
    return batches([process(task, "in", offset, "k", f"{offset}", 1) for task in tasks for offset in range(5)], size)


def echo(taken: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A host that writes each record to a sink, a repartition topic and a changelog, and reports."""
    for batch in taken:
        for row in batch.to_pylist():
            yield rows([(kind, row["task"], kind, 0, 0, b"k", row["value"], 1, None) for kind in KINDS])
    yield rows([(OFFSET, 0, "in", 1, 7, None, b"time", 0, None), (READ, 0, "in", 1, 5, None, b"", 0, None)])
    yield rows([(DROPPED, 0, "", 1, 2, None, b"", 0, None)])


KINDS = (SINK, REPARTITION, CHANGELOG)


def rows(of: Rows) -> pa.RecordBatch:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*of, strict=True), OUTPUT_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=OUTPUT_ARROW)


class Place:
    """A stage's place in a local folder."""

    def __init__(self, folder: Path) -> None:
        self.location = ObjectLocation(str(folder))
        self.objects = self.location.open()
        self.work = StageWork(self.objects, 1, 7)

    def run(self, tasks: Iterable[int], run_tasks: Any = echo) -> list[pa.RecordBatch]:
        return list(StageWriter(run_tasks, self.location, self.work.prefix).run(given(tasks)))

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
    (answer,) = place.run([4, 2])
    assert answer.to_pylist() == [{"first_task": 2}]
    (finished,) = place.work.finished()
    assert (finished.tasks, finished.rows, finished.read, finished.dropped) == ([2, 4], 10, {"in": 5}, 2)
    assert finished.offsets == [("in", 1, "time")]
    assert {kind: file.rows for kind, file in finished.files.items()} == dict.fromkeys(KINDS, 10)
    assert place.values(SINK) == [b"0", b"1", b"2", b"3", b"4"] * 2


def test_a_partition_without_rows_starts_no_host_and_writes_nothing(place: Place) -> None:
    def refuses(taken: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise AssertionError

    empty = pa.RecordBatch.from_pylist([], INPUT_ARROW)
    assert list(StageWriter(refuses, place.location, place.work.prefix).run([empty])) == []
    assert place.names() == []


def test_of_two_attempts_the_first_counts_and_the_other_leaves_nothing(place: Place) -> None:
    place.run([1])
    first = place.work.finished()
    before = place.names()
    place.run([1])
    assert place.names() == before
    assert place.work.finished() == first


def test_an_attempt_that_fails_leaves_no_note(place: Place) -> None:
    def fails(taken: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from echo(taken)
        raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        place.run([1], fails)
    assert place.work.finished() == []
    place.run([1])
    assert place.values(REPARTITION) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_file_that_has_changed_is_found_by_its_hash(place: Place) -> None:
    place.run([1])
    (finished,) = place.work.finished()
    place.objects.put(finished.files[SINK].name, b"PAR1 something else PAR1")
    with pytest.raises(StreamsError, match=r"is damaged: its hash .* without --resume"):
        place.values(SINK)


def test_the_rows_that_tasks_have_taken_are_counted_for_the_driver(place: Place) -> None:
    assert place.work.taken() == 0
    place.run([1, 2])
    assert place.work.taken() == 10
    place.work.begin()
    assert place.work.taken() == 0
