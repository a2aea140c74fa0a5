"""The job that runs live and by Spark: page views, the profiles of their users, and the plans that these have.

It has every kind of state: a table and a join with it, a repartitioned count in windows, sessions, a table whose rows
expire, and a join by foreign key.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from itertools import accumulate
from typing import Any

import penstock as ps
from benchmarks.data import ZIPF_EXPONENT, Dataset, Row

VIEWS, PROFILES, PLANS = "page-views", "profiles", "plans"
COUNTED, PRICED = "counted-views", "priced-profiles"
STORES = ("views-per-region", "visits", "recent-views", "prices")
RECORDS, USERS, PLAN_COUNT = 5_000_000, 100_000, 50
VIEWS_PER_MS = 10
_PROFILE_SHARE = 20
"""Page views for each change of a profile."""
_AGE_MS = 3_600_000
_GRACE = timedelta(minutes=12)
"""Long enough that no window drops a record. Live tasks are minutes of event time apart if some partitions are larger
than others. So behind a repartition topic records come late, and two runs would drop different ones."""
_REGIONS, _PAGES, _CHUNK = 40, 500, 10_000
LATE_SHARE, LATE_MS = 0.02, 20_000

_STRING, _JSON, _LONG = ps.Serdes.string(), ps.Serdes.json(), ps.Serdes.long()


def topology() -> ps.Topology:
    """Returns the topology of the job."""
    builder = ps.StreamsBuilder()
    rows = ps.Consumed.with_(_STRING, _JSON)
    profiles = builder.table(PROFILES, rows)
    views = builder.stream(VIEWS, rows)
    (
        views.join(profiles, _with_region)
        .group_by(lambda _, view: view["region"], ps.Grouped.with_(_STRING, _JSON))
        .windowed_by(ps.TimeWindows.of_size_and_grace(timedelta(minutes=1), _GRACE))
        .count(ps.Materialized.as_("views-per-region"))
        .to_stream()
        .map(lambda window, count: (f"{window.key}@{window.window.start}", count))
        .to(COUNTED, ps.Produced.with_(_STRING, _LONG))
    )
    by_user = views.group_by_key(ps.Grouped.with_(_STRING, _JSON))
    (
        by_user.windowed_by(ps.SessionWindows.of_inactivity_gap_and_grace(timedelta(seconds=30), timedelta(minutes=1)))
        .count(ps.Materialized.as_("visits"))
    )  # fmt: skip
    recent: ps.Materialized[str, int] = ps.Materialized.as_("recent-views")
    by_user.count(recent.with_ttl(timedelta(minutes=2)))
    prices: ps.Materialized[str, Any] = ps.Materialized.as_("prices")
    (
        profiles.join(
            builder.table(PLANS, rows),
            lambda profile: str(profile["plan"]),
            lambda profile, plan: {"region": profile["region"], "cents": plan["cents"]},
            materialized=prices.with_value_serde(_JSON),
        )
        .to_stream()
        .to(PRICED, ps.Produced.with_(_STRING, _JSON))
    )
    return builder.build()


def _with_region(view: dict[str, Any], profile: dict[str, Any]) -> dict[str, Any]:
    return {"page": view["page"], "seconds": view["seconds"], "region": profile["region"]}


def page_views(records: int = RECORDS, users: int = USERS, hot: bool = False, per_ms: float = VIEWS_PER_MS) -> Dataset:
    """Returns the dataset of the job: ``records`` page views, of which some are late, and changes of profiles and plans
    meanwhile. ``hot``: few users have most of the views. ``per_ms``: number of views in a millisecond of their time.

    Views have odd times and profiles even ones: of records with equal times, either may be the first. Each user's
    first profile is older than the plans: as in Kafka Streams, a result has the plan's time if the plan comes second.
    The views begin an hour ago, because brokers delete old windows from changelogs."""
    start_ms = time.time_ns() // 60_000_000_000 * 60_000 - _AGE_MS
    return Dataset(
        "page views", records + records // _PROFILE_SHARE, users,
        {
            VIEWS: partial(_views, start_ms, records, users, hot, per_ms),
            PROFILES: partial(_profiles, start_ms, records // _PROFILE_SHARE, users, per_ms),
        },
        {PLANS: partial(_plans, start_ms)},
        value_bytes=200,
    )  # fmt: skip


def _views(start_ms: int, records: int, users: int, hot: bool, per_ms: float) -> Iterator[Row]:
    draw = random.Random(1)
    weights = list(accumulate((number + 1) ** -ZIPF_EXPONENT for number in range(users))) if hot else None
    note = b"x" * 150
    for begin in range(0, records, _CHUNK):
        drawn = draw.choices(range(users), cum_weights=weights, k=_CHUNK)
        for index in range(min(_CHUNK, records - begin)):
            timestamp = start_ms + int((begin + index) / per_ms)
            if draw.random() < LATE_SHARE:
                timestamp -= draw.randrange(LATE_MS)
            timestamp |= 1
            value = b'{"page":"/p%d","seconds":%d,"agent":"%b"}' % (drawn[index] % _PAGES, index % 60, note)
            yield b"user-%d" % drawn[index], value, timestamp


def _profiles(start_ms: int, changes: int, users: int, per_ms: float) -> Iterator[Row]:
    """Yields each user once before all views, then changes of users in the time of the views."""
    draw = random.Random(2)
    for number in range(users):
        yield _profile(number, number, start_ms - users + number)
    for number in range(max(0, changes - users)):
        yield _profile(draw.randrange(users), number * 7, start_ms + int(number * _PROFILE_SHARE / per_ms))


def _profile(user: int, number: int, timestamp: int) -> Row:
    timestamp &= ~1
    value = b'{"region":"r%d","plan":%d,"name":"n%d"}' % (number % _REGIONS, number % PLAN_COUNT, user)
    return b"user-%d" % user, value, timestamp


def _plans(start_ms: int) -> Iterator[Row]:
    for number in range(PLAN_COUNT):
        yield b"%d" % number, b'{"cents":%d}' % (number * 100), start_ms
