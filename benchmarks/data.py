"""The records that benchmarks run on, in datasets: what one broker is filled with, for the workloads that read it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import orjson

Row = tuple[bytes, bytes, int]
"""Key, value and timestamp (ms)."""

INPUT, TABLE = "bench", "users"
CLICKS, VIEWS = "clicks", "views"
ORDERS, BUYERS = "orders", "buyers"
PARTITIONS = 4
KEYS = 100_000
LARGE_RECORDS, LARGE_KEYS = 6_000_000, 10_000_000
"""Of the workload whose state is larger than the caches."""
START_MS = 1_700_000_000_000
RECORDS_PER_MS = 40
PAIRED_RECORDS, PAIRED_PER_MS = 1_000_000, 250
"""Of each of the two streams that are joined: so dense that a record meets about one of the other within 200 ms."""
SESSION_RECORDS = 1_000_000
"""Nearly each payment begins a session of its own, all of which stand in the output."""
ORDERED_RECORDS, ORDERED_USERS = 500_000, 10_000
"""Changes of 100 k orders, each of which names one of the users."""

_SHAPES = 10_000
_CHUNK = 10_000
_COUNTRIES = ("de", "fr", "us", "br")


@dataclass(frozen=True)
class Dataset:
    """Topics and what they hold: records of ``streams`` are processed and counted, ``tables`` are read before them."""

    name: str
    records: int
    """How many the streams hold together."""
    keys: int
    streams: Mapping[str, Callable[[], Iterator[Row]]]
    tables: Mapping[str, Callable[[], Iterator[Row]]] = field(default_factory=dict)


def payments_of_users(records: int, keys: int, per_ms: int = RECORDS_PER_MS) -> Dataset:
    """Payments, and the table of the users who pay."""
    rows = partial(payments, records, keys, per_ms=per_ms)
    return Dataset("payments", records, keys, {INPUT: rows}, {TABLE: partial(users, keys)})


def payments_of_many(records: int = LARGE_RECORDS, keys: int = LARGE_KEYS) -> Dataset:
    """Payments of more users than fit into a cache, of whom there is no table."""
    return Dataset("many keys", records, keys, {INPUT: partial(payments, records, keys)})


def fewer_payments(records: int = SESSION_RECORDS, keys: int = KEYS) -> Dataset:
    """For outputs with a row for nearly each record."""
    return Dataset("fewer payments", records, keys, {INPUT: partial(payments, records, keys)})


def clicks_and_views(records: int = PAIRED_RECORDS, keys: int = KEYS, per_ms: int = PAIRED_PER_MS) -> Dataset:
    """Two streams of the same keys and times."""
    sides = {topic: partial(payments, records, keys, seed, per_ms) for seed, topic in ((1, CLICKS), (2, VIEWS))}
    return Dataset("clicks and views", 2 * records, keys, sides)


def orders_of_users(records: int = ORDERED_RECORDS, keys: int = KEYS, buyers: int = ORDERED_USERS) -> Dataset:
    """Changes of orders, and a tenth as many changes of the users who buy."""
    of_users = records // 10
    return Dataset(
        "orders", records + of_users, keys,
        {ORDERS: partial(orders, records, keys, buyers), BUYERS: partial(buyer_changes, of_users, buyers)},
    )  # fmt: skip


def users(keys: int = KEYS) -> Iterator[Row]:
    """Key, value and timestamp (ms) of each row of the table; all older than the first payment."""
    for number in range(keys):
        yield b"user-%d" % number, b'{"name":"n%d","city":"c%d"}' % (number, number % 97), START_MS - keys + number


def payments(records: int, keys: int = KEYS, seed: int = 1, per_ms: int = RECORDS_PER_MS) -> Iterator[Row]:
    """Key, value and timestamp (ms) of each payment, about 120 B of JSON; the same ones for the same seed.

    Only the key is drawn at random: drawing amounts too would make the generator the slowest part of the run.
    """
    choose = random.Random(seed).choices
    shapes = [_payment(number) for number in range(_SHAPES)]
    for begin in range(0, records, _CHUNK):
        drawn = choose(range(keys), k=_CHUNK)
        for index in range(min(_CHUNK, records - begin)):
            yield b"user-%d" % drawn[index], shapes[index], START_MS + (begin + index) // per_ms


def orders(records: int, keys: int, buyers: int, seed: int = 3) -> Iterator[Row]:
    """The order, its user and amount, and a timestamp (ms)."""
    draw = random.Random(seed)
    for number in range(records):
        order, user = draw.randrange(keys), draw.randrange(buyers)
        yield b"order-%d" % order, b"user-%d|%d" % (user, number), START_MS + number // RECORDS_PER_MS


def buyer_changes(records: int, buyers: int, seed: int = 4) -> Iterator[Row]:
    """Each user once, then changes of users, in times as long as those of ten times as many orders."""
    draw = random.Random(seed)
    for number in range(records):
        user = number if number < buyers else draw.randrange(buyers)
        yield b"user-%d" % user, b"name-%d-%d" % (user, number), START_MS + number * 10 // RECORDS_PER_MS


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
