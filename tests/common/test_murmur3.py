"""murmur3 as Kafka Streams computes it: its own test vectors."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import murmur2, murmur3
from penstock.common.murmur3 import murmur3_128

VECTORS = {
    "": "9d2764a018e329428c3cf3b035938518",
    "21": "f17eca1051f3195faa02832bb26585e5",
    "foobar": "e545263cde70bba21e8c9e2fc5c7ed4e",
    "abc": "8cc66bdf24a3b65ee942bed9d38bee40",
    "a-little-bit-long-string": "4b2f885efbb06dae2bacf689b9712e90",
    "v": "e001ba9f5f750d0518bc9338ae3e72f3",
}


@pytest.mark.parametrize("text", VECTORS)
def test_the_hash_is_kafka_streams(text: str) -> None:
    assert murmur3_128(text.encode()).hex() == VECTORS[text]


def test_with_a_compiler_the_compiled_hashes_are_in_use() -> None:
    compiler = shutil.which((os.environ.get("CC") or "cc").split()[0])
    assert (murmur3.murmur3_128 is not murmur3._murmur3_128 and murmur2.murmur2 is not murmur2._murmur2) or not compiler


@given(st.binary(max_size=70), st.integers(1, 2**31 - 1))
def test_both_forms_give_the_same_hashes(data: bytes, partitions: int) -> None:
    assert murmur3.murmur3_128(data) == murmur3._murmur3_128(data)
    assert murmur2.murmur2(data) == murmur2._murmur2(data)
    assert murmur2.partition_for(data, partitions) == murmur2._partition_for(data, partitions)
