"""Cogrouped streams: aggregates of several streams in one store, and the node where their updates meet."""

from __future__ import annotations

from penstock.tasks.closures import closure_of
from penstock.tasks.operators.aggregate import aggregate
from penstock.tasks.wiring import StreamEdge, TableEdge, Wiring
from penstock.topology.physical.operators.cogroup import CogroupAggregate, CogroupMerge


@closure_of(CogroupAggregate)
def _cogroup_aggregate(spec: CogroupAggregate, wiring: Wiring) -> StreamEdge:
    return aggregate(spec, wiring)


@closure_of(CogroupMerge)
def _cogroup_merge(spec: CogroupMerge, wiring: Wiring) -> TableEdge:
    return wiring.forward_change
