"""A broker that is away while others answer is noticed, with the partitions that miss it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from structlog.testing import capture_logs

from penstock.cluster.missing_brokers import NONE_MISSING, BrokerLosses, MissingBroker
from penstock.cluster.watchers.missing_broker_watch import MissedBrokers, MissingBrokerWatch
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import TopicPartition
from penstock.kafka.brokers import Brokers, Replicas

ALL = {1: "one:9092", 2: "two:9092", 3: "three:9092"}
TOPICS = {"orders", "customers"}


def at(topic: str, number: int) -> TopicPartition:
    return TopicPartition(topic, number)


def cluster(
    away: frozenset[int] = frozenset(), leaderless: frozenset[TopicPartition] = frozenset(),
    known: Mapping[int, str] = ALL,
) -> Brokers:  # fmt: skip
    """Three brokers: ``orders`` has one replica of each partition, ``customers`` has three, ``others`` is not read."""
    replicas: dict[TopicPartition, tuple[int, ...]] = {at("orders", number): (number + 1,) for number in range(3)}
    replicas |= {at("customers", number): (1, 2, 3) for number in range(2)} | {at("others", 0): (2,)}
    partitions = {}
    for partition, brokers in replicas.items():
        alive = tuple(each for each in brokers if each not in away)
        leader = alive[0] if alive and partition not in leaderless else None
        partitions[partition] = Replicas(leader, brokers, alive or brokers)
    return Brokers({number: host for number, host in known.items() if number not in away}, partitions)


def test_nothing_is_missed_while_every_broker_is_there() -> None:
    assert MissedBrokers().look(cluster(), TOPICS, 1_000) == NONE_MISSING


def test_a_broker_that_is_away_is_named_with_its_address_and_what_misses_it() -> None:
    missed = MissedBrokers()
    missed.look(cluster(), TOPICS, 1_000)
    found = missed.look(cluster(frozenset({2})), TOPICS, 2_000)
    (broker,) = found.missing
    assert broker == MissingBroker(2, "two:9092", 2_000, (at("orders", 1),), (at("customers", 0), at("customers", 1)))
    assert broker.named == "2 (two:9092)"
    assert dict(found.counts) == {"orders": 3, "customers": 2}
    assert found.without_leader == {at("orders", 1)}
    assert missed.look(cluster(frozenset({2})), TOPICS, 9_000).missing[0].since_ms == 2_000, "still the same loss"
    assert missed.look(cluster(), TOPICS, 10_000) == NONE_MISSING
    assert missed.look(cluster(frozenset({2})), TOPICS, 11_000).missing[0].since_ms == 11_000, "another loss"


def test_a_broker_that_was_away_from_the_beginning_has_no_address() -> None:
    (broker,) = MissedBrokers().look(cluster(frozenset({3})), TOPICS, 1_000).missing
    assert (broker.address, broker.named) == (None, "3")


def test_brokers_without_the_topics_of_the_application_are_not_missed() -> None:
    assert MissedBrokers().look(cluster(frozenset({2})), {"no-such-topic"}, 1_000) == NONE_MISSING


def test_a_partition_without_a_leader_counts_from_the_second_look_if_its_brokers_are_there() -> None:
    missed, moves = MissedBrokers(), cluster(leaderless=frozenset({at("customers", 1)}))
    assert missed.look(moves, TOPICS, 1_000) == NONE_MISSING, "its leader may move just now"
    assert missed.look(moves, TOPICS, 2_000) == BrokerLosses((), (("customers", 2),), (at("customers", 1),))
    assert missed.look(cluster(), TOPICS, 3_000) == NONE_MISSING


class Kafka:
    """Clients that answer with ``found``, or raise ``error``."""

    def __init__(self) -> None:
        self.found = cluster()
        self.error: BrokerUnreachableError | None = None
        self.clients = 0
        self.now_ms = 1_000
        self.watch = MissingBrokerWatch("app", self.client, lambda: self.now_ms)

    def client(self) -> Kafka:
        self.clients += 1
        return self

    def brokers(self) -> Brokers:
        if self.error is not None:
            raise self.error
        return self.found

    def check(self) -> list[Mapping[str, object]]:
        self.now_ms += 5_000
        with capture_logs() as logged:
            self.watch.check(TOPICS)
        return list(logged)


def test_the_log_has_one_line_when_a_broker_goes_and_one_when_it_is_back() -> None:
    kafka = Kafka()
    assert kafka.check() == []
    kafka.found = cluster(frozenset({2}))
    (line,) = kafka.check()
    assert (line["log_level"], line["event"], line["broker"]) == ("warning", "broker away", "2 (two:9092)")
    assert (line["partitions_without_leader"], line["partitions_with_fewer_replicas"]) == (1, 2)
    assert kafka.check() == [], "once is enough"
    kafka.found = cluster()
    (line,) = kafka.check()
    assert (line["event"], line["broker"], line["away_s"]) == ("broker is back", "2 (two:9092)", 10.0)


def test_a_client_without_an_answer_is_replaced_and_the_last_answer_remains() -> None:
    kafka = Kafka()
    kafka.found = cluster(frozenset({2}))
    kafka.check()
    kafka.error = BrokerUnreachableError("Connection refused")
    with pytest.raises(BrokerUnreachableError):
        kafka.check()
    assert len(kafka.watch.losses.missing) == 1
    kafka.error = None
    kafka.check()
    assert kafka.clients == 2
