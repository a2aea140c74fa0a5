"""The programs that are measured, as a user would write them. ``java/Bench.java`` has the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import penstock as ps
from benchmarks.data import BUYERS, CLICKS, INPUT, ORDERS, TABLE, VIEWS

STRING, JSON, LONG, DOUBLE = ps.Serdes.string(), ps.Serdes.json(), ps.Serdes.long(), ps.Serdes.double()
STRINGS = ps.Consumed.with_(STRING, STRING)
COUNT_STORE = "payments-per-user"
WINDOW_MS, GAP_MS, GRACE_MS = 60_000, 500, 60_000
APART_MS = 200
SHORT_WINDOW_MS, SHORT_GRACE_MS = 1_000, 10_000


def json(output: str) -> ps.Topology:
    """Parse, keep the large payments, and write user and cents."""
    builder = ps.StreamsBuilder()
    (
        builder.stream(INPUT, ps.Consumed.with_(STRING, JSON))
        .filter(lambda payment: payment["amount"] > 1000)
        .map_values(in_cents)
        .to(output, ps.Produced.with_(STRING, JSON))
    )
    return builder.build()


def in_cents(payment: dict[str, Any]) -> dict[str, Any]:
    """Returns the part of a payment that is kept."""
    return {"user": payment["user"], "cents": int(payment["amount"] * 100)}


def count(output: str) -> ps.Topology:
    """Count the payments of each user."""
    builder = ps.StreamsBuilder()
    (
        builder.stream(INPUT, STRINGS)
        .group_by_key()
        .count(ps.Materialized.as_(COUNT_STORE))
        .to_stream()
        .to(output, ps.Produced.with_(STRING, LONG))
    )
    return builder.build()


def join(output: str) -> ps.Topology:
    """Join each payment with its user."""
    builder = ps.StreamsBuilder()
    users = builder.table(TABLE, STRINGS)
    (
        builder.stream(INPUT, STRINGS)
        .join(users, lambda payment, user: payment + user)
        .to(output, ps.Produced.with_(STRING, STRING))
    )
    return builder.build()


def window_sum(output: str) -> ps.Topology:
    """Parse, and add up what each user pays per minute."""
    builder = ps.StreamsBuilder()
    windows = ps.TimeWindows.of_size_and_grace(WINDOW_MS, GRACE_MS)
    (
        builder.stream(INPUT, ps.Consumed.with_(STRING, JSON))
        .map_values(lambda payment: payment["amount"])
        .group_by_key(ps.Grouped.with_(STRING, DOUBLE))
        .windowed_by(windows)
        .aggregate(lambda: 0.0, lambda user, amount, total: total + amount, ps.Materialized.with_(STRING, DOUBLE))
        .to_stream()
        .to(output, ps.Produced.with_(ps.WindowedSerdes.time_windowed_serde_from(STRING, WINDOW_MS), DOUBLE))
    )
    return builder.build()


def window_count(output: str) -> ps.Topology:
    """Count the payments of each user per second."""
    builder = ps.StreamsBuilder()
    windows = ps.TimeWindows.of_size_and_grace(SHORT_WINDOW_MS, SHORT_GRACE_MS)
    (
        builder.stream(INPUT, STRINGS)
        .group_by_key()
        .windowed_by(windows)
        .count()
        .to_stream()
        .to(output, ps.Produced.with_(ps.WindowedSerdes.time_windowed_serde_from(STRING, SHORT_WINDOW_MS), LONG))
    )
    return builder.build()


def session_count(output: str) -> ps.Topology:
    """Count the payments of each session of a user."""
    builder = ps.StreamsBuilder()
    windows = ps.SessionWindows.of_inactivity_gap_and_grace(GAP_MS, GRACE_MS)
    (
        builder.stream(INPUT, STRINGS)
        .group_by_key()
        .windowed_by(windows)
        .count()
        .to_stream()
        .to(output, ps.Produced.with_(ps.WindowedSerdes.session_windowed_serde_from(STRING), LONG))
    )
    return builder.build()


def stream_join(output: str) -> ps.Topology:
    """Join each click with the views of the same user up to 200 ms before and after."""
    builder = ps.StreamsBuilder()
    (
        builder.stream(CLICKS, STRINGS)
        .join(
            builder.stream(VIEWS, STRINGS),
            lambda click, view: f"{len(click)}/{len(view)}",
            ps.JoinWindows.of_time_difference_and_grace(APART_MS, APART_MS),
            ps.StreamJoined.with_(STRING, STRING, STRING),
        )
        .to(output, ps.Produced.with_(STRING, STRING))
    )
    return builder.build()


def table_join(output: str) -> ps.Topology:
    """Join the last click of each user with the last view."""
    builder = ps.StreamsBuilder()
    as_table = ps.Materialized.with_(STRING, STRING)
    views = builder.stream(VIEWS, STRINGS).to_table(as_table)
    (
        builder.stream(CLICKS, STRINGS)
        .to_table(as_table)
        .join(views, lambda click, view: click + view)
        .to_stream()
        .to(output, ps.Produced.with_(STRING, STRING))
    )
    return builder.build()


def foreign_key_join(output: str) -> ps.Topology:
    """Join each order with its buyer; without caches, so that it ends without a commit."""
    builder = ps.StreamsBuilder()
    as_table = ps.Materialized.with_(STRING, STRING).with_caching_disabled()
    buyers = builder.stream(BUYERS, STRINGS).to_table(as_table)
    (
        builder.stream(ORDERS, STRINGS)
        .to_table(as_table)
        .join(buyers, lambda order: order.partition("|")[0], lambda order, buyer: f"{order}|{buyer}")
        .to_stream()
        .to(output, ps.Produced.with_(STRING, STRING))
    )
    return builder.build()


@dataclass(frozen=True)
class Workload:
    """A program of ``topology(output topic)`` over the dataset of that name.

    ``every_row``: each row that it writes is known, not the last one of each key alone. ``settles``: it continues in
    topics of its own when its input is processed, and has ended when the output is as expected. ``table`` is read
    as well, and its rows are not counted. ``kafka_streams_errs``: wrong results of Kafka Streams are shown with the
    figures and do not end the run.
    """

    topology: Callable[[str], ps.Topology]
    dataset: str
    every_row: bool = False
    settles: bool = False
    kafka_streams_errs: bool = False
    table: str | None = None


COUNT, LARGE = "count", "count-large"
WORKLOADS: dict[str, Workload] = {
    "json": Workload(json, "payments", every_row=True),
    COUNT: Workload(count, "payments"),
    "join": Workload(join, "payments", every_row=True, table=TABLE),
    "window-sum": Workload(window_sum, "payments"),
    "session-count": Workload(session_count, "fewer payments"),
    "session-dense": Workload(session_count, "dense payments"),
    "window-1s": Workload(window_count, "dense payments"),
    "window-late": Workload(window_count, "late payments"),
    "count-hot": Workload(count, "hot keys"),
    "json-wide": Workload(json, "wide payments", every_row=True),
    "stream-join": Workload(stream_join, "clicks and views", every_row=True),
    "table-join": Workload(table_join, "clicks and views", kafka_streams_errs=True),
    "foreign-key-join": Workload(foreign_key_join, "orders", settles=True),
    LARGE: Workload(count, "many keys"),
}
"""``count-large`` is ``count`` of so many users that their counts fit into no cache.

Some exist in a hard shape and an easy one. ``session-dense`` has sessions of several records, ``window-1s`` many
windows of each key, and in ``window-late`` some records are late as well. In ``count-hot`` few keys have most of the
records, and ``json-wide`` has values of about 2 kB."""
