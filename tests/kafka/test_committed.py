from __future__ import annotations

from typing import cast

from confluent_kafka import TopicPartition as Tpo

from penstock.common.ids import CommittedOffset
from penstock.kafka.committed import committed_offset
from penstock.tasks.offsets import decode_partition_time, encode_partition_time


class _Answer:
    """An answer of librdkafka that reads past the end of the metadata that the Java client committed."""

    offset = 7

    def __init__(self, memory: bytes) -> None:
        self._memory = memory

    @property
    def metadata(self) -> str:
        return self._memory.decode()


def _read(memory: bytes) -> CommittedOffset:
    return committed_offset(cast(Tpo, _Answer(memory)))


def test_metadata_is_read_as_it_was_committed() -> None:
    assert committed_offset(Tpo("lines", 0, 7, "AgAAAYvP5u6f")) == CommittedOffset(7, "AgAAAYvP5u6f")


def test_an_offset_without_metadata_has_empty_metadata() -> None:
    assert committed_offset(Tpo("lines", 0, 7)) == CommittedOffset(7, "")


def test_stray_bytes_behind_the_metadata_are_cut_off() -> None:
    assert _read(b"AgAAAYvP5u6f\xfe~\x7f") == CommittedOffset(7, "AgAAAYvP5u6f")


def test_the_partition_time_survives_stray_characters_behind_it() -> None:
    text = encode_partition_time(1_700_000_099_999)
    for stray in (b"", b"\x7f~", b"AAAA", b"=", b"\xfe"):
        assert decode_partition_time(_read(text.encode() + stray).metadata) == 1_700_000_099_999, stray
