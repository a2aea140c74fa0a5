"""``penstock archive verify``: reads the files of an archive, and finds the reason for each missing offset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock.common.errors import StreamsError
from penstock.common.offset_ranges import OffsetRange
from penstock.objects.contracts import ObjectStore
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.kafka_comparison import KafkaComparison
from penstock.pipeline.archive.manifest import ArchivedFile
from penstock.pipeline.archive.records import FILE_SCHEMA, content_digest, read_file

RETENTION = "retention"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Missing:
    """Neighbouring offsets without a record, and the reason: ``retention`` (Kafka had deleted them before they were
    archived), ``aborted``, ``marker``, ``compacted or marker``, or ``unknown`` (Kafka cannot be asked any more)."""

    begin: int
    end: int
    why: str


@dataclass
class PartitionReport:
    """The findings in one partition of a generation. ``compared``: the number of records that Kafka still has."""

    topic: str
    generation: int
    partition: int
    begin: int
    end: int
    rows: int = 0
    compared: int = 0
    missing: list[Missing] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def verify(objects: ObjectStore, archived: ArchivedTopic, kafka: KafkaComparison | None) -> Iterator[PartitionReport]:
    """Yields a report of each partition. ``kafka``: the topic, if it is still the one that was archived."""
    for partition, offsets in archived.partitions.items():
        report = PartitionReport(archived.topic, archived.generation.number, partition, offsets.begin, offsets.end)
        files = [file for file in archived.all_files() if file.partition == partition]
        holes = without(offsets, [file.offsets for file in files])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for file, found in zip(files, pool.map(lambda file: _look_into(objects, file), files), strict=True):
                report.problems += found.problems
                report.rows += found.rows
                holes += found.holes
                if kafka is not None and not found.problems:
                    compared, differences = kafka.compare(objects, file)
                    report.compared += compared
                    report.problems += differences
        lost = [OffsetRange(it.begin, it.end) for it in archived.lost if it.partition == partition]
        holes.sort(key=lambda hole: hole.begin)
        unexplained = [part for hole in holes for part in without(hole, lost)]
        reasons = ((it, UNKNOWN) for it in unexplained) if kafka is None else kafka.reasons(partition, unexplained)
        report.missing = [*_joined(reasons), *(Missing(it.begin, it.end, RETENTION) for it in lost)]
        report.missing.sort(key=lambda it: it.begin)
        yield report


def without(whole: OffsetRange, parts: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Returns what remains of ``whole`` without ``parts``, which do not overlap."""
    inside = sorted((it for it in parts if it.end > whole.begin and it.begin < whole.end), key=lambda it: it.begin)
    ends = [whole.begin, *(it.end for it in inside)]
    begins = [*(it.begin for it in inside), whole.end]
    return [OffsetRange(end, begin) for end, begin in zip(ends, begins, strict=True) if begin > end]


@dataclass
class _InFile:
    rows: int = 0
    holes: list[OffsetRange] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def _look_into(objects: ObjectStore, file: ArchivedFile) -> _InFile:
    """Reads a file whole: its hash, its records, and the offsets that it lacks."""
    try:
        table = read_file(objects, file.name, file.digest).read(FILE_SCHEMA.names)
    except StreamsError as error:
        return _InFile(problems=[str(error)])
    except (pa.ArrowException, OSError) as error:
        return _InFile(problems=[f"file {file.name} has the right hash, but cannot be read: {error}"])
    offsets = table.column("offset").combine_chunks()
    found = _InFile(table.num_rows, _holes(file.offsets, offsets))
    if table.num_rows != file.rows or content_digest([table]) != file.content_digest:
        found.problems.append(f"file {file.name} does not have the records that its manifest names")
    elif len(offsets) and (
        offsets[0].as_py() < file.begin or offsets[-1].as_py() >= file.end or not _ascending(offsets)
    ):
        found.problems.append(
            f"file {file.name} has offsets that are not between {file.begin} and {file.end}, in order"
        )
    return found


def _ascending(offsets: pa.Array) -> bool:
    return bool(pc.all(pc.less(offsets[:-1], offsets[1:])).as_py() in (True, None))


def _holes(whole: OffsetRange, offsets: pa.Array) -> list[OffsetRange]:
    if not len(offsets):
        return [whole]
    steps = pc.greater(pc.subtract(offsets[1:], offsets[:-1]), 1)
    before = offsets[:-1].filter(steps).to_pylist()
    after = offsets[1:].filter(steps).to_pylist()
    edges = [(whole.begin - 1, offsets[0].as_py()), *zip(before, after, strict=True), (offsets[-1].as_py(), whole.end)]
    return [OffsetRange(last + 1, first) for last, first in edges if first > last + 1]


def _joined(reasons: Iterable[tuple[OffsetRange, str]]) -> list[Missing]:
    """Returns the parts, joined if they are neighbours and have the same reason."""
    found: list[Missing] = []
    for offsets, why in reasons:
        if found and (found[-1].end, found[-1].why) == (offsets.begin, why):
            found[-1] = Missing(found[-1].begin, offsets.end, why)
        else:
            found.append(Missing(offsets.begin, offsets.end, why))
    return found
