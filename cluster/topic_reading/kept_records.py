"""Records between a read and their showing: kept with large parts clipped, then shown decoded."""

from __future__ import annotations

from typing import NamedTuple

from penstock.cluster.record_side import Shown, ShownRecord
from penstock.cluster.topic_reading.showing import Clip, Decoder, clip, clipped_headers, raw, shown_headers
from penstock.cluster.topic_reading.topic_serdes import TopicSerdes
from penstock.common.records import RecordBatch
from penstock.common.windows import Window


class Kept(NamedTuple):
    """A record as far as it can be shown: its large parts are clipped."""

    partition: int
    offset: int
    timestamp: int
    key: Clip | None
    value: Clip | None
    headers: list[tuple[str, Clip | None]]
    header_count: int


def kept_of(batch: RecordBatch, index: int) -> Kept:
    """Returns one record of a batch."""
    headers = None if batch.headers is None else batch.headers[index]
    return Kept(
        batch.partition.partition,
        batch.offsets[index],
        batch.timestamps[index],
        clip(batch.keys[index]),
        clip(batch.values[index]),
        clipped_headers(headers),
        len(headers or ()),
    )


def decoded(decoder: Decoder, serdes: TopicSerdes | str, record: Kept) -> tuple[Shown | None, Shown | None]:
    """Returns key and value by ``serdes``, which may be the reason why there are none."""
    key, value, why = (None, None, serdes) if isinstance(serdes, str) else (serdes.key, serdes.value, None)
    return decoder.show(key, record.key, why), decoder.show(value, record.value, why)


def shown_record(
    decoder: Decoder, serdes: TopicSerdes | str, record: Kept, window: Window | None = None
) -> ShownRecord:
    """Returns a record with :func:`decoded` key and value."""
    return _shown(record, *decoded(decoder, serdes, record), window)


def raw_record(record: Kept) -> ShownRecord:
    """Returns a record with key and value as text or bytes."""
    key, value = (None if part is None else raw(part) for part in (record.key, record.value))
    return _shown(record, key, value)


def _shown(record: Kept, key: Shown | None, value: Shown | None, window: Window | None = None) -> ShownRecord:
    headers = shown_headers(record.headers)
    return ShownRecord(
        record.partition, record.offset, record.timestamp, key, value, headers, record.header_count, window
    )
