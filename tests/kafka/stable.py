"""Waiting for the end of transactions that have been committed or aborted."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import replace

from penstock.common.ids import TopicPartition
from penstock.kafka.clients import ConfluentClients
from tests.waiting import eventually


def until_stable(clients: ConfluentClients, partitions: Collection[TopicPartition]) -> None:
    """Waits until readers of committed records see all that was committed: a broker writes the markers of a transaction
    just after it has answered."""
    committed_only = {**clients.consumer_overrides, "isolation.level": "read_committed"}
    admin = clients.admin()
    with closing(replace(clients, consumer_overrides=committed_only).consumer()) as consumer:
        eventually(
            lambda: consumer.fetch_end_offsets(partitions) == admin.high_watermarks(partitions),
            f"no transaction is open in {', '.join(sorted({partition.topic for partition in partitions}))}",
        )
