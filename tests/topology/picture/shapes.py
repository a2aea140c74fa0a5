"""Twelve topologies of different shapes, whose pictures are kept beside this file (``golden``)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import penstock as ps

TEXT = ps.Serdes.string()
LONG = ps.Serdes.long()
Build = Callable[[ps.StreamsBuilder], None]


def joined(*values: object) -> str:
    return "|".join(map(str, values))


def read(builder: ps.StreamsBuilder, topic: str) -> ps.KStream[str, str]:
    return builder.stream(topic, ps.Consumed.with_(TEXT, TEXT))


def table(builder: ps.StreamsBuilder, topic: str, store: str | None = None) -> ps.KTable[str, str]:
    materialized: ps.Materialized[str, str] | None = None if store is None else ps.Materialized.as_(store)
    return builder.table(topic, ps.Consumed.with_(TEXT, TEXT), materialized)


def linear(builder: ps.StreamsBuilder) -> None:
    read(builder, "orders").filter(lambda k, v: True).map_values(str.upper).peek(print).to("shipped")


def word_count(builder: ps.StreamsBuilder) -> None:
    words = read(builder, "lines").flat_map_values(str.split).group_by(lambda word: word)
    words.count(ps.Materialized.as_("counts")).to_stream().to("word-counts")


def wide_branch(builder: ps.StreamsBuilder) -> None:
    branches = read(builder, "events").split(named="by-kind-")
    for kind in ("click", "view", "buy"):
        branches.branch(lambda k, v: True, ps.Branched.as_(kind))
    for name, branch in branches.default_branch().items():
        branch.map_values(str.upper).to(f"{name}s")


def merge(builder: ps.StreamsBuilder) -> None:
    merged = read(builder, "web")
    for topic in ("phone", "shop", "partner", "post"):
        merged = merged.merge(read(builder, topic).map_values(str.lower))
    merged.to("all-orders")


def table_join(builder: ps.StreamsBuilder) -> None:
    profiles = table(builder, "profiles", "profiles-store")
    views = read(builder, "views").join(profiles, joined)
    views.left_join(table(builder, "pages"), joined).to("enriched-views")


def stream_join(builder: ps.StreamsBuilder) -> None:
    within = ps.JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=10))
    read(builder, "impressions").outer_join(read(builder, "clicks"), joined, within).to("attributed")


def foreign_key_join(builder: ps.StreamsBuilder) -> None:
    orders, customers = table(builder, "orders"), table(builder, "customers")
    of_customers = orders.join(customers, lambda order: order, joined, materialized=ps.Materialized.as_("orders-full"))
    of_customers.to_stream().to("orders-with-customers")


def cogroup(builder: ps.StreamsBuilder) -> None:
    def add(key: str, value: str, total: str) -> str:
        return total + value

    first, *others = [read(builder, topic).group_by_key() for topic in ("carts", "purchases", "returns")]
    grouped: Any = first.cogroup(add)
    for other in others:
        grouped = grouped.cogroup(other, add)
    grouped.aggregate(str, ps.Materialized.as_("customers")).to_stream().to("customer-totals")


def split_into_ten(builder: ps.StreamsBuilder) -> None:
    branches = read(builder, "measurements").split(named="sensor-")
    for number in range(1, 10):
        branches.branch(lambda k, v: True, ps.Branched.as_(str(number)))
    for number, branch in enumerate(branches.default_branch().values()):
        branch.to(f"sensor-{number}-values")


def many_subtopologies(builder: ps.StreamsBuilder) -> None:
    payments = read(builder, "payments")
    by_shop = payments.group_by(lambda k, v: v, ps.Grouped.as_("by-shop")).count(ps.Materialized.as_("per-shop"))
    by_bank = payments.group_by(lambda k, v: k, ps.Grouped.as_("by-bank")).count(ps.Materialized.as_("per-bank"))
    by_shop.to_stream().to("shop-counts")
    by_bank.to_stream().to("bank-counts")
    shops = table(builder, "shops", "shops")
    regions = by_shop.join(shops, joined).group_by(lambda k, v: (v, v), ps.Grouped.as_("by-region"))
    regions.count(ps.Materialized.as_("per-region")).to_stream().to("region-counts")
    for topic in ("refunds", "chargebacks", "logins"):
        read(builder, topic).filter(lambda k, v: True).to(f"checked-{topic}")
    read(builder, "checked-logins").print(ps.Printed.to_sys_out())


def global_table(builder: ps.StreamsBuilder) -> None:
    consumed = ps.Consumed.with_(TEXT, TEXT)
    countries = builder.global_table("countries", consumed, ps.Materialized.as_("countries-store"))
    currencies = builder.global_table("currencies", consumed, ps.Materialized.as_("currencies-store"))
    orders = read(builder, "orders").join(countries, lambda k, v: v, joined)
    orders.left_join(currencies, lambda k, v: v, joined).to("priced-orders")


class Twice(ps.Processor[str, str, str, str]):
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: ps.Record[str, str]) -> None:
        self.context.forward(record)


def by_hand() -> ps.Topology:
    topology = ps.Topology()
    topology.add_source("Trades", "trades", key_serde=TEXT, value_serde=TEXT)
    topology.add_source("Quotes", "quotes", key_serde=TEXT, value_serde=TEXT)
    topology.add_processor("Validate", Twice, "Trades")
    topology.add_processor("Match", Twice, "Validate", "Quotes")
    topology.add_processor("Alert", Twice, "Match")
    for name, users in {
        "seen-trades": ("Validate",), "last-quotes": ("Match", "Alert"), "positions": ("Match",), "limits": ("Alert",),
    }.items():  # fmt: skip
        store = ps.Stores.persistent_key_value_store(name)
        topology.add_state_store(ps.Stores.key_value_store_builder(store, TEXT, TEXT), *users)
    topology.add_sink("Matched", "matched", "Match", key_serde=TEXT, value_serde=TEXT)
    topology.add_sink("Alerts", "alerts", "Alert", key_serde=TEXT, value_serde=TEXT)
    return topology


def a_hundred_operators(builder: ps.StreamsBuilder) -> None:
    """Ten steps of eight operators, with a table at every third one."""
    stream = read(builder, "begin")
    for step in range(10):
        left, right = (
            stream.filter(lambda k, v: True).map_values(str.strip).peek(print),
            stream.filter_not(lambda k, v: False).flat_map_values(str.split),
        )
        stream = left.merge(right).map_values(str.lower)
        if step % 3 == 2:
            counted = stream.group_by_key().count(ps.Materialized.as_(f"counts-{step}"))
            counted.to_stream().map_values(str).to(f"counts-{step}")
            stream = stream.join(table(builder, f"table-{step}"), joined)
        if step == 5:
            stream = stream.select_key(lambda k, v: v).repartition(ps.Repartitioned.as_("half-way"))
    stream.to("end")


def built(build: Build) -> ps.Topology:
    builder = ps.StreamsBuilder()
    build(builder)
    return builder.build()


OF_THE_DSL: tuple[Build, ...] = (
    linear, word_count, wide_branch, merge, table_join, stream_join, foreign_key_join, cogroup, split_into_ten,
    many_subtopologies, global_table, a_hundred_operators,
)  # fmt: skip
SHAPES: dict[str, Callable[[], ps.Topology]] = {
    **{build.__name__: lambda build=build: built(build) for build in OF_THE_DSL},  # type: ignore[misc]
    by_hand.__name__: by_hand,
}
