"""Stops one node of a local broker that has three."""

from __future__ import annotations

import psutil

from penstock.kafka.local_broker.broker import LocalBroker


def stop_node_of(broker: LocalBroker, node_id: int) -> None:
    """Kill one node, as if its machine had gone."""
    [pid] = [node.pid for node in broker.status().nodes if node.address.node_id == node_id]
    node = psutil.Process(pid)
    node.kill()
    node.wait(30)
