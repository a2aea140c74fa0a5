"""Tasks without state in parts: the same bytes as whole, in the same order, also if another process continues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.common.records import RecordBatch
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill.plan import Stage
from penstock.pipeline.backfill.row_files import FileReader, written_to
from penstock.pipeline.backfill.run_stages import Results
from penstock.pipeline.backfill.splitting import Part, parts_of, unfinished, why_whole
from penstock.pipeline.backfill.stage_files import StageWriter, Unit
from penstock.pipeline.backfill.stage_input import HistoryInput
from penstock.pipeline.backfill.work import StageWork
from penstock.pipeline.reading.merge import merged_writers
from penstock.pipeline.rows import REPARTITION, SINK
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost
from penstock.tasks.offsets import decode_partition_time
from tests.pipeline.topologies import STRING, described, foreign_key_join, latest_words, priced_orders

CONFIG = StreamsConfig.of({"application.id": "app"})
AT, RECORDS = TopicPartition("lines", 0), 1000
WORDS = "app-words-repartition"


def words() -> ps.Topology:
    """The words of each line: all to a sink, and to a repartition topic, behind which they are counted."""
    builder = ps.StreamsBuilder()
    lines = builder.stream("lines", ps.Consumed.with_(STRING, STRING))
    each = lines.flat_map_values(lambda line: line.split()).filter(lambda _, word: word != "7")
    each.to("out", ps.Produced.with_(STRING, STRING))
    by_word = each.group_by(lambda _, word: word, ps.Grouped.with_(STRING, STRING).with_name("words"))
    by_word.count(ps.Materialized.as_("counts"))
    return builder.build()


def line(offset: int) -> tuple[bytes, bytes, int]:
    late = offset - 30 if offset % 11 == 0 else offset
    return b"k%d" % (offset % 5), b"%d word-%d" % (offset % 13, offset), 1000 + late


@dataclass(frozen=True)
class Lines:
    """One partition of lines, of which some offsets have no record."""

    def open(self, ranges: Ranges) -> OpenLines:
        return OpenLines(ranges)


class OpenLines:
    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def batches(self, at: TopicPartition) -> Iterator[RecordBatch]:
        there = [offset for offset in range(self._ranges[at].begin, self._ranges[at].end) if offset % 17]
        for begin in range(0, len(there), 90):
            offsets = there[begin : begin + 90]
            keys, values, times = map(list, zip(*map(line, offsets), strict=True))
            yield RecordBatch(at, keys, values, times, offsets)

    def close(self) -> None:
        pass


def numbers(count: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"id": list(range(count))})]


def stage_of(topology: ps.Topology, number: int = 0) -> Stage:
    none = frozenset[str]()
    subs = (topology.subtopologies[number],)
    return Stage(subs, 1, {AT: OffsetRange(0, RECORDS)}, none, frozenset({WORDS}), none, {}, {})


class Place:
    """The work of a stage over the lines, in a local folder."""

    def __init__(self, folder: Path) -> None:
        self.location = ObjectLocation(str(folder))
        self.objects = self.location.open()
        self.work = StageWork(self.objects, 1, "run-1")

    def run(self, parts: list[Part]) -> None:
        stage = stage_of(words())
        counts = TopicCounts({"out": 2, WORDS: 3}, frozenset({WORDS}), frozenset())
        history: Any = Lines()
        given = HistoryInput(
            stage.subtopologies, CONFIG, {}, history, stage.records, (), self.location, (), frozenset()
        )
        units = [Unit(part.tasks, part.number, replace(given, records=part.records)) for part in parts]
        host = TaskHost(stage.subtopologies[0], HostSettings(CONFIG, counts, {}))
        writer = StageWriter(host.run, units, self.location, self.work.prefix)
        assert len(list(writer.run(numbers(len(units))))) == len(units)

    def results(self) -> tuple[list[Any], list[Any], Results]:
        """Returns the rows of the sink, the records of the repartition topic by partition, and the reports."""
        manifest = self.work.commit()
        files = manifest.files(SINK)
        columns = ("kind", "task", "topic", "partition", "key", "value", "timestamp", "headers")
        read = FileReader(self.location, files).run(numbers(len(files)))
        rows = [row for batch in read for row in batch.select(columns).to_pylist()]
        shuffled = []
        for number in range(3):
            writers = written_to(self.objects, manifest.files(REPARTITION), TopicPartition(WORDS, number))
            for batch in merged_writers(writers):
                shuffled += [(number, *row) for row in zip(batch.keys, batch.values, batch.timestamps, strict=True)]
        run: Any = None
        return rows, shuffled, Results(run, [(stage_of(words()), manifest)])


def test_parts_of_one_partition_yield_the_same_bytes_as_the_whole_also_if_they_are_resumed(tmp_path: Path) -> None:
    whole, split = Place(tmp_path / "whole"), Place(tmp_path / "split")
    (alone,) = parts_of(stage_of(words()), CONFIG)
    whole.run([alone])
    parts = parts_of(stage_of(words()), CONFIG, most=RECORDS // 4)
    assert [part.records for part in parts] == [
        {AT: OffsetRange(begin, begin + RECORDS // 4)} for begin in range(0, RECORDS, RECORDS // 4)
    ]
    split.run([parts[2], parts[0]])
    done = {(task, each.part) for each in split.work.finished() for task in each.tasks}
    left = unfinished(parts, done)
    assert left == [parts[1], parts[3]]
    split.run(left)
    rows, shuffled, reports = whole.results()
    rows_of_parts, shuffled_by_parts, reports_of_parts = split.results()
    assert rows_of_parts == rows != []
    assert shuffled_by_parts == shuffled != []
    assert reports_of_parts.read(frozenset()) == reports.read(frozenset())
    assert reports_of_parts.metadata() == reports.metadata()
    assert decode_partition_time(reports.metadata()[AT]) == 1000 + RECORDS - 1


@pytest.mark.parametrize(
    ("topology", "number", "reason"),
    [
        (words(), 0, None),
        (words(), 1, "it has state"),
        (latest_words(), 0, "it has state"),
        (priced_orders(), 0, "it has state"),
        (foreign_key_join(), 0, "it has state"),
        (described("lines", "users", "words", "out"), 0, "a processor of the user's may remember records"),
    ],
)
def test_only_what_remembers_nothing_is_split(topology: ps.Topology, number: int, reason: str | None) -> None:
    assert why_whole(stage_of(topology, number), CONFIG) == reason
    assert (len(parts_of(stage_of(topology, number), CONFIG, most=100)) > 1) == (reason is None)


def test_a_source_whose_times_depend_on_earlier_records_and_a_merge_are_not_split() -> None:
    builder = ps.StreamsBuilder()
    texts, to_out = ps.Consumed.with_(STRING, STRING), ps.Produced.with_(STRING, STRING)
    builder.stream("lines", texts.with_timestamp_extractor(ps.UsePartitionTimeOnInvalidTimestamp())).to("out", to_out)
    builder.stream("left", texts).merge(builder.stream("right", texts)).to("out", to_out)
    topology = builder.build()
    reasons = [why_whole(stage_of(topology, number), CONFIG) for number in range(2)]
    assert reasons == ["its timestamp extractor sees the times of earlier records", "it merges records"]
