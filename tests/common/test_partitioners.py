"""The partitioner that the keys of a partition look like."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from zlib import crc32

import pytest

from penstock.common.murmur2 import partition_for
from penstock.common.partitioners import KeySample, Partitioner


def keys_of(place: Callable[[bytes, int], int], partition: int, partitions: int, seed: int = 1) -> list[bytes | None]:
    random = Random(seed)
    keys = [random.randbytes(random.randint(1, 40)) for _ in range(400)]
    return [key for key in keys if place(key, partitions) == partition]


def by_crc32(key: bytes, partitions: int) -> int:
    return crc32(key) % partitions


def by_first_byte(key: bytes, partitions: int) -> int:
    return key[0] % partitions


@pytest.mark.parametrize("partitions", [2, 3, 7, 16])
@pytest.mark.parametrize(
    ("place", "found"),
    [(partition_for, Partitioner.MURMUR2), (by_crc32, Partitioner.CRC32), (by_first_byte, Partitioner.UNKNOWN)],
)
def test_each_partitioner_is_recognised(
    place: Callable[[bytes, int], int], found: Partitioner, partitions: int
) -> None:
    for partition in range(partitions):
        sample = KeySample(partition, partitions)
        sample.look(keys_of(place, partition, partitions))
        assert sample.partitioner is found


def test_one_key_is_not_enough_to_name_crc32_but_to_rule_both_out() -> None:
    mine = next(key for key in keys_of(by_crc32, 0, 4) if key is not None and partition_for(key, 4) != 0)
    sample = KeySample(0, 4)
    sample.look([mine])
    assert sample.partitioner is None
    assert (sample.misplaced, sample.misplaced_key) == (1, mine)
    stray = next(key for key in keys_of(by_first_byte, 0, 4) if key and partition_for(key, 4) and crc32(key) % 4)
    sample.look([stray])
    assert sample.partitioner is Partitioner.UNKNOWN


def test_the_same_key_again_is_no_proof_until_there_are_many_of_it() -> None:
    mine = next(key for key in keys_of(by_crc32, 0, 4) if key is not None and partition_for(key, 4) != 0)
    sample = KeySample(0, 4)
    sample.look([mine] * 50)
    assert sample.partitioner is None
    for _ in range(15):
        sample.look([mine] * 50)
    assert sample.partitioner is None
    for _ in range(40):
        sample.look([mine] * 50)
    assert sample.partitioner is Partitioner.CRC32


def test_after_the_first_keys_two_of_a_batch_are_looked_at() -> None:
    sample = KeySample(0, 4)
    right = keys_of(partition_for, 0, 4)[:64]
    sample.look(right)
    assert sample.misplaced == 0
    wrong = [key for key in keys_of(by_crc32, 0, 4) if key is not None and partition_for(key, 4) != 0]
    sample.look(wrong)
    assert sample.misplaced == 2
    assert sample.partitioner is Partitioner.UNKNOWN, "several partitioners"


def test_null_and_empty_keys_and_a_topic_of_one_partition_report_nothing() -> None:
    sample = KeySample(1, 4)
    sample.look([None, b"", None])
    assert (sample.partitioner, sample.misplaced) == (None, 0)
    alone = KeySample(0, 1)
    alone.look(keys_of(partition_for, 0, 1))
    assert alone.partitioner is None
