"""The serdes that an operator passes on, and the places where they end up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.topology.physical.topology import SinkNode

STRING, LONG, DOUBLE = ps.Serdes.string(), ps.Serdes.long(), ps.Serdes.double()
Stream = ps.KStream[Any, Any]


@pytest.mark.parametrize(
    ("operator", "key_serde", "value_serde"),
    [
        (lambda s: s.filter(lambda k, v: True), STRING, LONG),
        (lambda s: s.peek(print), STRING, LONG),
        (lambda s: s.map_values(str), STRING, None),
        (lambda s: s.flat_map_values(range), STRING, None),
        (lambda s: s.select_key(lambda k, v: v), None, LONG),
        (lambda s: s.map(lambda k, v: (v, k)), None, None),
        (lambda s: s.flat_map(lambda k, v: []), None, None),
        (lambda s: s.merge(s.filter(lambda k, v: True)), None, None),
        (lambda s: s.repartition(), STRING, LONG),
        (lambda s: s.repartition(ps.Repartitioned.with_(value_serde=DOUBLE)), STRING, DOUBLE),
        (lambda s: s.split(named="x-").default_branch()["x-0"], STRING, LONG),
        (lambda s: s.to_table().to_stream(), STRING, LONG),
        (lambda s: s.group_by_key().count().to_stream(), STRING, LONG),
        (lambda s: s.group_by(lambda k, v: v).reduce(max).to_stream(), None, LONG),
        (lambda s: s.group_by_key().aggregate(float, lambda k, v, a: a + v).to_stream(), STRING, None),
        (
            lambda s: (
                s.group_by_key().aggregate(float, lambda k, v, a: a, ps.Materialized.with_(None, DOUBLE)).to_stream()
            ),
            STRING,
            DOUBLE,
        ),
        (lambda s: s.group_by_key(ps.Grouped.as_("g")).reduce(max).to_stream(), None, None),
        (lambda s: s.to_table().filter(lambda k, v: True).to_stream(), STRING, LONG),
        (lambda s: s.to_table().map_values(str).to_stream(), STRING, None),
        (lambda s: s.to_table().to_stream(lambda k, v: v), None, LONG),
        (lambda s: s.join(s.repartition().to_table(), lambda left, right: left), STRING, None),
    ],
)
def test_an_operator_hands_on_the_serdes_that_still_fit(
    operator: Callable[[Stream], Stream], key_serde: ps.Serde[Any] | None, value_serde: ps.Serde[Any] | None
) -> None:
    builder = ps.StreamsBuilder()
    operator(builder.stream("in", ps.Consumed.with_(STRING, LONG))).to("out")
    nodes = [node for sub in builder.build().subtopologies for node in sub.nodes]
    (sink,) = (node for node in nodes if isinstance(node, SinkNode) and node.topic == "out")
    assert (sink.key_serde, sink.value_serde) == (key_serde, value_serde)


def test_serdes_given_to_either_option_of_a_table_count_for_both() -> None:
    builder = ps.StreamsBuilder()
    builder.table("in", materialized=ps.Materialized.as_("store").with_key_serde(STRING).with_value_serde(LONG))
    topology = builder.build()
    (source,) = topology.subtopologies[0].sources
    store = topology.store_builders["store"]
    assert (source.key_serde, source.value_serde) == (store.key_serde, store.value_serde) == (STRING, LONG)
