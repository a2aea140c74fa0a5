"""Payments are counted per account. One of the three brokers is stopped, and payments have one replica."""

from __future__ import annotations

import penstock as ps
from penstock.common.topics import NewTopic
from penstock.topology.physical.topology import Topology
from tests.page.prepared.prepared import Prepared

PARTITIONS = 6
MISSING = 2
"""The id of the broker that is to be found."""


def is_settled(_: str, payment: str) -> bool:
    """True if the money has arrived."""
    return payment != "pending"


def topology() -> Topology:
    """One sub-topology with a store."""
    text, number = ps.Serdes.string(), ps.Serdes.long()
    builder = ps.StreamsBuilder()
    (
        builder.stream("payments", ps.Consumed.with_(text, text))
        .filter(is_settled, named=ps.Named.as_("only-settled"))
        .group_by_key()
        .count(ps.Materialized.as_("payments-per-account"))
        .to_stream(named=ps.Named.as_("changes"))
        .to("accounts", ps.Produced.with_(text, number))
    )
    return builder.build()


def record(sent: int) -> tuple[bytes, bytes]:
    """Returns one of many payments of many accounts."""
    return f"account-{sent * 7919 % 1_000}".encode(), b"pending" if sent % 10 == 0 else b"settled"


MISSING_BROKER = Prepared(
    "payments-app", topology, (NewTopic("payments", PARTITIONS, 1), NewTopic("accounts", PARTITIONS)), "payments",
    record, 200, brokers=3,
)  # fmt: skip
