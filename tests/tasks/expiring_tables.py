"""Topologies of tables with a TTL, a task of one, and what comes of it as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.state.disk.task_stores import open_task_stores
from tests.tasks.bench import STRINGS, Bench

TEXT, LONG = ps.Serdes.string(), ps.Serdes.long()
TTL = 10
ROWS: ps.Materialized[Any, Any] = ps.Materialized.as_("rows")
Shown = tuple[str, str | None, int]

Build = Callable[[ps.StreamsBuilder, ps.Materialized[Any, Any]], ps.KStream[str, Any]]


def table(builder: ps.StreamsBuilder, how: ps.Materialized[Any, Any]) -> ps.KStream[str, Any]:
    return builder.table("in", STRINGS, how).to_stream()


def counts(builder: ps.StreamsBuilder, how: ps.Materialized[Any, Any]) -> ps.KStream[str, Any]:
    table = builder.stream("in", STRINGS).group_by_key().count(how.with_value_serde(LONG))
    return table.to_stream().map_values(lambda count: None if count is None else str(count))


def joined(builder: ps.StreamsBuilder, how: ps.Materialized[Any, Any]) -> ps.KStream[str, Any]:
    there = builder.table("other", STRINGS)
    return builder.table("in", STRINGS, how).left_join(there, lambda one, other: f"{one}{other}").to_stream()


class Idle(ps.Processor[Any, Any, Any, Any]):
    def process(self, record: ps.Record[Any, Any]) -> None: ...


def bench(
    build: Build,
    *,
    caching: bool = False,
    ttl: int = TTL,
    config: dict[str, Any] | None = None,
    state: Path | None = None,
    start: bool = True,
) -> Bench:
    builder = ps.StreamsBuilder()
    how = ROWS.with_ttl(ttl)
    build(builder, how if caching else how.with_caching_disabled()).to("out", ps.Produced.with_(TEXT, TEXT))
    stores = None
    if state is not None:
        stores = open_task_stores(state, builder.build().store_builders.values())
    return Bench(builder, config, stores, start=start)


def shown(sent: Sequence[Any], topic: str = "out") -> list[Shown]:
    return [
        (each.key.decode(), None if each.value is None else each.value.decode(), each.timestamp)
        for each in sent
        if each.topic == topic
    ]
