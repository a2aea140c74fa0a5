"""Each call to the simulated Kafka is known as one that asks the broker, or as one that does not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest

from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.topics import NewTopic
from penstock.testing.fake_broker import FakeBroker
from penstock.testing.fake_clients import FakeAdmin
from tests.simulation.simulated_kafka import ASKING, LOCAL, SimulatedBroker, Wire

TP = TopicPartition("in", 0)
OF_TESTS = {
    "address", "down", "error", "loses_answers", "records", "uncommitted_records", "expire_transactions",
    "forget_producers",
}  # fmt: skip
"""Names that no client uses: a simulated one does not reach them."""
ADMIN_CALLS: dict[str, Callable[[Any], Any]] = {
    "reach": lambda admin: admin.reach(),
    "topics": lambda admin: admin.topics(),
    "brokers": lambda admin: admin.brokers(),
    "create_topics": lambda admin: admin.create_topics([NewTopic("new", 1)]),
    "try_topics": lambda admin: admin.try_topics([NewTopic("new", 1)]),
    "delete_topics": lambda admin: admin.delete_topics(["in"]),
    "delete_records": lambda admin: admin.delete_records({TP: 0}),
    "end_offsets": lambda admin: admin.end_offsets([TP]),
    "high_watermarks": lambda admin: admin.high_watermarks([TP]),
    "topic_configs": lambda admin: admin.topic_configs(["in"]),
    "broker_configs": lambda admin: admin.broker_configs(),
    "topic_ids": lambda admin: admin.topic_ids(["in"]),
    "delete_retention_ms": lambda admin: admin.delete_retention_ms(["in"]),
    "committed": lambda admin: admin.committed("group"),
    "commit": lambda admin: admin.commit("group", {TP: CommittedOffset(0, "")}),
    "group_members": lambda admin: admin.group_members("group"),
}


class Place:
    """A process that is cut off from the broker, or not."""

    def __init__(self, reaches_broker: bool) -> None:
        self.rng = Random(0)
        self.reaches_broker = reaches_broker
        self.blocked_s = 0.0

    def block(self, seconds: float) -> None:
        self.blocked_s += seconds


def _public(of: object) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def _wire(broker: SimulatedBroker, place: Place) -> FakeBroker:
    return cast("FakeBroker", Wire(broker, cast("Any", place)))


@pytest.fixture
def broker() -> SimulatedBroker:
    broker = SimulatedBroker(lambda: 0.0, moves_partitions=False)
    broker.create_topic(NewTopic("in", 1))
    return broker


def test_each_name_of_the_broker_is_known_as_asking_or_as_local() -> None:
    assert not ASKING & LOCAL
    assert _public(FakeBroker()) == ASKING | LOCAL | OF_TESTS


@pytest.mark.parametrize("name", sorted(OF_TESTS))
def test_a_client_does_not_reach_what_tests_look_at(broker: SimulatedBroker, name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(_wire(broker, Place(True)), name)


def test_each_call_of_the_admin_client_is_listed() -> None:
    assert {name for name, _ in inspect.getmembers(FakeAdmin, inspect.isfunction) if name[0] != "_"} == set(ADMIN_CALLS)


@pytest.mark.parametrize("name", ADMIN_CALLS)
def test_a_call_of_the_admin_client_waits_and_fails_where_no_broker_answers(broker: SimulatedBroker, name: str) -> None:
    ADMIN_CALLS[name](FakeAdmin(_wire(broker, Place(True))))
    place = Place(False)
    with pytest.raises(BrokerUnreachableError):
        ADMIN_CALLS[name](FakeAdmin(_wire(broker, place)))
    assert place.blocked_s > 0


@pytest.mark.parametrize("name", ADMIN_CALLS)
def test_it_fails_in_an_outage_of_the_broker(broker: SimulatedBroker, name: str) -> None:
    broker.down = True
    with pytest.raises(BrokerUnreachableError):
        ADMIN_CALLS[name](FakeAdmin(broker))
