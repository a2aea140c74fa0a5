"""Orders are checked, priced, and added up per customer: one of its functions takes 8 ms a record."""

from __future__ import annotations

import json
import time
from typing import Any

import penstock as ps
from penstock.common.topics import NewTopic
from penstock.topology.physical.topology import Topology
from tests.page.prepared.prepared import PARTITIONS, Prepared

CUSTOMERS = 500
SLOW = "check-fraud"
"""The operator that is to be found."""
Order = dict[str, Any]


def is_paid(_: str, order: Order) -> bool:
    """True if the order counts."""
    return bool(order["cents"])


def with_country(order: Order) -> Order:
    """Adds where the customer lives."""
    return {**order, "country": "NL" if order["customer"].endswith("7") else "DE"}


def with_risk(order: Order) -> Order:
    """Adds how likely the order is fraud."""
    time.sleep(0.008)
    return {**order, "risk": order["cents"] % 100}


def is_harmless(_: str, order: Order) -> bool:
    """True if the order is no fraud."""
    return int(order["risk"]) < 99


def with_tax(order: Order) -> Order:
    """Adds the tax of the country."""
    return {**order, "cents": order["cents"] * (121 if order["country"] == "NL" else 119) // 100}


def added(_: str, order: Order, total: int) -> int:
    """Adds an order to the total of its customer."""
    return total + int(order["cents"])


def topology() -> Topology:
    """Two sub-topologies of seven and four operators."""
    text, number, order = ps.Serdes.string(), ps.Serdes.long(), ps.Serdes.json()
    builder = ps.StreamsBuilder()
    (
        builder.stream("orders", ps.Consumed.with_(text, order))
        .filter(is_paid, named=ps.Named.as_("only-paid"))
        .map_values(with_country, named=ps.Named.as_("add-country"))
        .map_values(with_risk, named=ps.Named.as_(SLOW))
        .filter(is_harmless, named=ps.Named.as_("drop-fraud"))
        .map_values(with_tax, named=ps.Named.as_("add-tax"))
        .group_by(lambda _, order: order["customer"], ps.Grouped.with_(text, order).with_name("by-customer"))
        .aggregate(lambda: 0, added, ps.Materialized.as_("totals").with_value_serde(number))
        .to_stream(named=ps.Named.as_("changes"))
        .map_values(lambda cents: cents // 100, named=ps.Named.as_("in-euros"))
        .to("totals", ps.Produced.with_(text, number))
    )
    return builder.build()


def record(sent: int) -> tuple[bytes, bytes]:
    """Returns one of many orders of many customers."""
    order = {"customer": f"customer-{sent * 7919 % CUSTOMERS}", "cents": 100 + sent % 5_000}
    return f"order-{sent}".encode(), json.dumps(order).encode()


SLOW_OPERATOR = Prepared(
    "orders-app", topology, (NewTopic("orders", PARTITIONS), NewTopic("totals", PARTITIONS)), "orders", record, 1_000
)
