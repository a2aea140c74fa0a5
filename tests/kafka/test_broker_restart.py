"""Clients outlive a restart of their broker: they ask again for all that they knew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.local_broker.broker import LocalBroker
from tests.waiting import once_ready

PARTITIONS = [TopicPartition("numbers", number) for number in range(2)]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[LocalBroker]:
    broker = LocalBroker(tmp_path / "broker", port=0)
    with broker:
        yield broker


@pytest.mark.long
def test_an_admin_client_answers_for_partitions_whose_leader_has_a_new_epoch(own_broker: LocalBroker) -> None:
    clients = ConfluentClients(own_broker.status().bootstrap_servers, "restart")
    admin, producer = clients.admin(), clients.producer()
    admin.create_topics([NewTopic("numbers", len(PARTITIONS))])
    producer.send("numbers", None, b"1", 1, partition=0)
    assert producer.flush(60)
    before = {PARTITIONS[0]: 1, PARTITIONS[1]: 0}
    for _ in range(3):
        assert admin.end_offsets(PARTITIONS) == before
        own_broker.stop()
        own_broker.start()
        # Any other error fails the test, because it would end an application.
        assert once_ready(lambda: admin.end_offsets(PARTITIONS), BrokerUnreachableError) == before
    own_broker.stop()
    own_broker.start()
    once_ready(lambda: admin.delete_records({PARTITIONS[0]: 1}), BrokerUnreachableError)
    producer.close()
