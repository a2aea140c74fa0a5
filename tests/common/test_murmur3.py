"""murmur3 as Kafka Streams computes it: its own test vectors."""

from __future__ import annotations

import pytest

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
