"""Operators of cogrouped streams: several streams, each with an aggregator, and one aggregate per key."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.topology.physical.operators.aggregate import StreamAggregate
from penstock.topology.physical.operators.operator import TableOperator


@dataclass(frozen=True)
class CogroupAggregate(StreamAggregate):
    """Aggregates one of the streams in ``store``, which all of them share."""

    call = "cogroup"


@dataclass(frozen=True)
class CogroupMerge(TableOperator):
    """The updates of all the streams, forwarded as they come. It has no store: those above it have one."""

    keeps_key = keeps_value = True
