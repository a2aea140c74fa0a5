"""The records every benchmark runs on: payments of 100 k users in topic ``bench``, the users in topic ``users``."""

from __future__ import annotations

import random
from collections.abc import Iterator

import orjson

INPUT, TABLE = "bench", "users"
PARTITIONS = 4
KEYS = 100_000
LARGE_RECORDS, LARGE_KEYS = 6_000_000, 10_000_000
"""Of the workload whose state is larger than the caches."""
START_MS = 1_700_000_000_000
RECORDS_PER_MS = 40

_SHAPES = 10_000
_CHUNK = 10_000
_COUNTRIES = ("de", "fr", "us", "br")


def users(keys: int = KEYS) -> Iterator[tuple[bytes, bytes, int]]:
    """Key, value and timestamp (ms) of each row of the table; all older than the first payment."""
    for number in range(keys):
        yield b"user-%d" % number, b'{"name":"n%d","city":"c%d"}' % (number, number % 97), START_MS - keys + number


def payments(records: int, keys: int = KEYS, seed: int = 1) -> Iterator[tuple[bytes, bytes, int]]:
    """Key, value and timestamp (ms) of each payment, about 120 B of JSON; the same ones for the same seed.

    Only the key is drawn at random: drawing amounts too would make the generator the slowest part of the run.
    """
    choose = random.Random(seed).choices
    shapes = [_payment(number) for number in range(_SHAPES)]
    for begin in range(0, records, _CHUNK):
        drawn = choose(range(keys), k=_CHUNK)
        for index in range(min(_CHUNK, records - begin)):
            yield b"user-%d" % drawn[index], shapes[index], START_MS + (begin + index) // RECORDS_PER_MS


def _payment(number: int) -> bytes:
    return orjson.dumps(
        {
            "user": f"user-{number}",
            "amount": number * 0.5,
            "country": _COUNTRIES[number % 4],
            "ts": START_MS + number,
            "note": "x" * 40,
        }
    )
