"""Page views are counted per customer: nearly all of them are views of one customer's pages."""

from __future__ import annotations

import json
import time
from typing import Any

import penstock as ps
from penstock.common.topics import NewTopic
from penstock.topology.physical.topology import Topology
from tests.page.prepared.prepared import PARTITIONS, Prepared

HOT = "acme"
"""The key that is to be found."""
OTHERS = 300
_OTHERS_EACH = 12
"""Every so many views is one of another customer."""
View = dict[str, Any]


def is_person(_: str, view: View) -> bool:
    """True if no robot has looked."""
    return not view["robot"]


def with_device(view: View) -> View:
    """Adds the kind of device."""
    return {**view, "device": "phone" if view["width"] < 800 else "desk"}


def scored(_: str, view: View, score: int) -> int:
    """Adds a view to the score of its customer."""
    time.sleep(0.002)
    return score + (2 if view["device"] == "desk" else 1)


def topology() -> Topology:
    """Two sub-topologies; the second one has the views of a customer in one task."""
    text, number, view = ps.Serdes.string(), ps.Serdes.long(), ps.Serdes.json()
    builder = ps.StreamsBuilder()
    (
        builder.stream("views", ps.Consumed.with_(text, view))
        .filter(is_person, named=ps.Named.as_("only-people"))
        .map_values(with_device, named=ps.Named.as_("add-device"))
        .group_by(lambda _, view: view["customer"], ps.Grouped.with_(text, view).with_name("by-customer"))
        .aggregate(lambda: 0, scored, ps.Materialized.as_("scores").with_value_serde(number))
        .to_stream(named=ps.Named.as_("changes"))
        .to("scores", ps.Produced.with_(text, number))
    )
    return builder.build()


def record(sent: int) -> tuple[bytes, bytes]:
    """Returns one of many views of many pages."""
    customer = HOT if sent % _OTHERS_EACH else f"customer-{sent // _OTHERS_EACH * 7919 % OTHERS}"
    view = {"customer": customer, "page": f"/{sent % 40}", "width": 400 + sent % 1000, "robot": sent % 25 == 0}
    return f"view-{sent}".encode(), json.dumps(view).encode()


HOT_KEY = Prepared(
    "views-app", topology, (NewTopic("views", PARTITIONS), NewTopic("scores", PARTITIONS)), "views", record, 800
)
