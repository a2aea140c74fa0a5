"""The records that benchmarks run on, in datasets: what one broker is filled with, for the workloads that read it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

import orjson

Row = tuple[bytes, bytes, int]
"""Key, value and timestamp (ms)."""

INPUT, TABLE = "bench", "users"
CLICKS, VIEWS = "clicks", "views"
ORDERS, BUYERS = "orders", "buyers"
PARTITIONS = 4
KEYS = 100_000
LARGE_RECORDS, LARGE_KEYS = 6_000_000, 10_000_000
"""Records and keys of the workload whose state is larger than the caches."""
START_MS = 1_700_000_000_000
RECORDS_PER_MS = 40
PAIRED_RECORDS, PAIRED_PER_MS = 1_000_000, 250
"""Records of each joined stream, and those per ms: so dense that one meets about one of the other within 200 ms."""
SESSION_RECORDS = 1_000_000
"""Nearly each payment begins a session of its own, all of which are in the output."""
ORDERED_RECORDS, ORDERED_USERS = 500_000, 10_000
"""Changes of 100 k orders, each of which names one of the users."""

DENSE_RECORDS, DENSE_PER_MS = 2_000_000, 250
"""Payments, and those per ms: so dense that seven of ten come within 500 ms of the last one of their user."""
LATE_SHARE, LATE_MS = 0.05, 5_000
"""Share of the payments that come late, and the most ms by which they do."""
ZIPF_EXPONENT = 1.1
WIDE_RECORDS, WIDE_NOTE = 300_000, 1_900
"""Payments of about 2 kB."""

_SHAPES = 10_000
_CHUNK = 10_000
_COUNTRIES = ("de", "fr", "us", "br")


@dataclass(frozen=True)
class Dataset:
    """Topics and what they hold: records of ``streams`` are processed and counted, ``tables`` are read before them."""

    name: str
    records: int
    """The number of records of all streams together."""
    keys: int
    streams: Mapping[str, Callable[[], Iterator[Row]]]
    tables: Mapping[str, Callable[[], Iterator[Row]]] = field(default_factory=dict)
    value_bytes: int = 120
    """The approximate size of a record's value."""


def payments_of_users(records: int, keys: int, per_ms: int = RECORDS_PER_MS) -> Dataset:
    """Returns payments, and the table of their users."""
    rows = partial(payments, records, keys, per_ms=per_ms)
    return Dataset("payments", records, keys, {INPUT: rows}, {TABLE: partial(users, keys)})


def payments_of_many(records: int = LARGE_RECORDS, keys: int = LARGE_KEYS) -> Dataset:
    """Returns payments of more users than fit into a cache, of whom there is no table."""
    return Dataset("many keys", records, keys, {INPUT: partial(payments, records, keys)})


def fewer_payments(records: int = SESSION_RECORDS, keys: int = KEYS) -> Dataset:
    """Returns payments for outputs with a row for nearly each record."""
    return Dataset("fewer payments", records, keys, {INPUT: partial(payments, records, keys)})


def dense_payments(records: int = DENSE_RECORDS, keys: int = KEYS, per_ms: int = DENSE_PER_MS) -> Dataset:
    """Returns payments of which most users make several within a second."""
    return Dataset("dense payments", records, keys, {INPUT: partial(payments, records, keys, per_ms=per_ms)})


def late_payments(records: int = DENSE_RECORDS, keys: int = KEYS, per_ms: int = DENSE_PER_MS) -> Dataset:
    """Returns dense payments of which some are late."""
    rows = partial(payments, records, keys, per_ms=per_ms, late_share=LATE_SHARE)
    return Dataset("late payments", records, keys, {INPUT: rows})


def hot_payments(records: int = DENSE_RECORDS, keys: int = KEYS, per_ms: int = RECORDS_PER_MS) -> Dataset:
    """Returns payments of which few users make most."""
    rows = partial(payments, records, keys, per_ms=per_ms, exponent=ZIPF_EXPONENT)
    return Dataset("hot keys", records, keys, {INPUT: rows})


def wide_payments(records: int = WIDE_RECORDS, keys: int = KEYS) -> Dataset:
    """Returns payments with long notes."""
    rows = partial(payments, records, keys, note=WIDE_NOTE)
    return Dataset("wide payments", records, keys, {INPUT: rows}, value_bytes=2_000)


def clicks_and_views(records: int = PAIRED_RECORDS, keys: int = KEYS, per_ms: int = PAIRED_PER_MS) -> Dataset:
    """Returns two streams of the same keys and times."""
    sides = {topic: partial(payments, records, keys, seed, per_ms) for seed, topic in ((1, CLICKS), (2, VIEWS))}
    return Dataset("clicks and views", 2 * records, keys, sides)


def orders_of_users(records: int = ORDERED_RECORDS, keys: int = KEYS, buyers: int = ORDERED_USERS) -> Dataset:
    """Returns changes of orders, and a tenth as many changes of the users who buy."""
    of_users = records // 10
    return Dataset(
        "orders", records + of_users, keys,
        {ORDERS: partial(orders, records, keys, buyers), BUYERS: partial(buyer_changes, of_users, buyers)},
    )  # fmt: skip


def users(keys: int = KEYS) -> Iterator[Row]:
    """Yields key, value and timestamp (ms) of each row of the table; all older than the first payment."""
    for number in range(keys):
        yield b"user-%d" % number, b'{"name":"n%d","city":"c%d"}' % (number, number % 97), START_MS - keys + number


def payments(
    records: int, keys: int = KEYS, seed: int = 1, per_ms: int = RECORDS_PER_MS, *,
    late_share: float = 0.0, exponent: float = 0.0, note: int = 40,
) -> Iterator[Row]:  # fmt: skip
    """Yields key, value and timestamp (ms) of each payment, about 80 B of JSON and ``note`` bytes; the same ones for
    the same seed.

    Only the key is drawn at random: drawing amounts too would make the generator the slowest part of the run. The user
    of number n is drawn with a weight of 1 / (n + 1) ** ``exponent``. ``late_share`` of all payments have a timestamp
    that is up to ``LATE_MS`` older than that of the payment before.
    """
    draw = random.Random(seed)
    weights = list(accumulate((number + 1) ** -exponent for number in range(keys))) if exponent else None
    shapes = [_payment(number, note) for number in range(_SHAPES)]
    for begin in range(0, records, _CHUNK):
        drawn = draw.choices(range(keys), cum_weights=weights, k=_CHUNK)
        for index in range(min(_CHUNK, records - begin)):
            timestamp = START_MS + (begin + index) // per_ms
            if late_share and draw.random() < late_share:
                timestamp -= draw.randrange(LATE_MS)
            yield b"user-%d" % drawn[index], shapes[index], timestamp


def orders(records: int, keys: int, buyers: int, seed: int = 3) -> Iterator[Row]:
    """Yields the order, its user and amount, and a timestamp (ms)."""
    draw = random.Random(seed)
    for number in range(records):
        order, user = draw.randrange(keys), draw.randrange(buyers)
        yield b"order-%d" % order, b"user-%d|%d" % (user, number), START_MS + number // RECORDS_PER_MS


def buyer_changes(records: int, buyers: int, seed: int = 4) -> Iterator[Row]:
    """Yields each user once, then changes of users, in times as long as those of ten times as many orders."""
    draw = random.Random(seed)
    for number in range(records):
        user = number if number < buyers else draw.randrange(buyers)
        yield b"user-%d" % user, b"name-%d-%d" % (user, number), START_MS + number * 10 // RECORDS_PER_MS


def _payment(number: int, note: int) -> bytes:
    return orjson.dumps(
        {
            "user": f"user-{number}",
            "amount": number * 0.5,
            "country": _COUNTRIES[number % 4],
            "ts": START_MS + number,
            "note": "x" * note,
        }
    )
