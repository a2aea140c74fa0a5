"""The programs that are measured, as a user would write them. ``java/Bench.java`` has the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock as ps
from benchmarks.data import INPUT, TABLE

STRING, JSON = ps.Serdes.string(), ps.Serdes.json()
COUNT_STORE = "payments-per-user"


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
    """What is kept of a payment."""
    return {"user": payment["user"], "cents": int(payment["amount"] * 100)}


def count(output: str) -> ps.Topology:
    """Count the payments of each user."""
    builder = ps.StreamsBuilder()
    (
        builder.stream(INPUT, ps.Consumed.with_(STRING, STRING))
        .group_by_key()
        .count(ps.Materialized.as_(COUNT_STORE))
        .to_stream()
        .to(output, ps.Produced.with_(STRING, ps.Serdes.long()))
    )
    return builder.build()


def join(output: str) -> ps.Topology:
    """Put each payment beside its user."""
    builder = ps.StreamsBuilder()
    users = builder.table(TABLE, ps.Consumed.with_(STRING, STRING))
    (
        builder.stream(INPUT, ps.Consumed.with_(STRING, STRING))
        .join(users, lambda payment, user: payment + user)
        .to(output, ps.Produced.with_(STRING, STRING))
    )
    return builder.build()


LARGE = "count-large"
"""``count`` of so many users that their counts fit into no cache; on an input of its own."""

WORKLOADS: dict[str, Callable[[str], ps.Topology]] = {"json": json, "count": count, "join": join, LARGE: count}
