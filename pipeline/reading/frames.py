"""Records of history as a data frame of Spark: each partition is read by one worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.pipeline.reading.contracts import HistorySource, every_record

_SCHEMA = "topic string, partition int, sequence long, key binary, value binary, timestamp long"
_ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("sequence", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
    ]
)


@dataclass(frozen=True)
class _PartitionReader:
    history: HistorySource
    ranges: Sequence[tuple[TopicPartition, OffsetRange]]

    def run(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in every_record(self.history, dict([self.ranges[number]])):
                    topic, partition = rows.partition
                    count = len(rows)
                    columns = (
                        [topic] * count,
                        [partition] * count,
                        rows.offsets,
                        rows.keys,
                        rows.values,
                        rows.timestamps,
                    )
                    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def frame_of(spark: SparkSession, history: HistorySource, ranges: Ranges) -> DataFrame | None:
    """Returns the records of ``ranges``: topic, partition, offset (``sequence``), key, value and timestamp (ms); None
    if the ranges are empty."""
    wanted = [(at, offsets) for at, offsets in sorted(ranges.items()) if offsets]
    if not wanted:
        return None
    return spark.range(0, len(wanted), 1, len(wanted)).mapInArrow(_PartitionReader(history, wanted).run, _SCHEMA)
