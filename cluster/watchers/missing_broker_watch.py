"""Notices brokers of Kafka that are away while others answer: partitions then have no leader, or fewer replicas.

A broker that has a replica of a partition but is not in the metadata of the cluster is away: Kafka takes it out as soon
as it stops, or after ``broker.session.timeout.ms`` (9 s) without a sign of life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from penstock.cluster.missing_brokers import NONE_MISSING, BrokerLosses, MissingBroker
from penstock.common.ids import TopicPartition
from penstock.common.log import logger
from penstock.kafka.brokers import Brokers, Replicas


class MissedBrokers:
    """Remembers the addresses of brokers, and since when each is away. Pure."""

    def __init__(self) -> None:
        self._addresses: dict[int, str] = {}
        self._since: dict[int, int] = {}
        self._leaderless: frozenset[TopicPartition] = frozenset()

    def look(self, found: Brokers, topics: AbstractSet[str], now_ms: int) -> BrokerLosses:
        """Returns the brokers that ``topics`` miss. ``now_ms``: the time in ms since 1970."""
        self._addresses |= found.addresses
        own = {at: each for at, each in found.partitions.items() if at.topic in topics}
        away = {broker for each in own.values() for broker in each.brokers} - found.addresses.keys()
        self._since = {broker: self._since.get(broker, now_ms) for broker in sorted(away)}
        missing = tuple(self._missing(broker, own) for broker in self._since)
        # A new topic, and one whose leader moves, has none for a moment.
        others = {at for at, each in own.items() if each.leader is None and not away.intersection(each.brokers)}
        lasting, self._leaderless = self._leaderless & others, frozenset(others)
        touched = {at.topic for each in missing for at in (*each.leaderless, *each.fewer)} | {
            at.topic for at in lasting
        }
        return BrokerLosses(missing, _counts(own, touched), tuple(sorted(lasting)))

    def _missing(self, broker: int, own: Mapping[TopicPartition, Replicas]) -> MissingBroker:
        its = sorted(at for at, each in own.items() if broker in each.brokers)
        return MissingBroker(
            broker,
            self._addresses.get(broker),
            self._since[broker],
            leaderless=tuple(at for at in its if own[at].leader is None),
            fewer=tuple(at for at in its if own[at].leader is not None),
        )


def _counts(own: Iterable[TopicPartition], topics: AbstractSet[str]) -> tuple[tuple[str, int], ...]:
    found = dict.fromkeys(sorted(topics), 0)
    for at in own:
        if at.topic in found:
            found[at.topic] += 1
    return tuple(found.items())


class Asked(Protocol):
    """The part of :class:`~penstock.kafka.contracts.Admin` that is needed here."""

    def brokers(self) -> Brokers:
        """Return the brokers and the leaders of partitions."""


class MissingBrokerWatch:
    """Asks Kafka at each ``check``, and logs when a broker goes and comes back. ``now_ms``: the time in ms since 1970.
    One thread at a time."""

    def __init__(self, application_id: str, admin: Callable[[], Asked], now_ms: Callable[[], int]) -> None:
        self.losses = NONE_MISSING
        """The result of the last check that had an answer."""
        self._admin = admin
        self._client: Asked | None = None
        self._now_ms = now_ms
        self._missed = MissedBrokers()
        self._log = logger(__name__).bind(application=application_id)

    def check(self, topics: AbstractSet[str]) -> None:
        """Ask once for the brokers of ``topics``. Raises StreamsError if no broker answers."""
        client, self._client = self._client or self._admin(), None
        found = client.brokers()
        self._client = client  # one that gets no answer may itself be stuck (``kafka/fetch_watch.py``)
        before, self.losses = self.losses, self._missed.look(found, topics, self._now_ms())
        known = {each.broker_id for each in before.missing}
        for each in self.losses.missing:
            if each.broker_id not in known:
                self._log.warning(
                    "broker away",
                    broker=each.named,
                    partitions_without_leader=len(each.leaderless),
                    partitions_with_fewer_replicas=len(each.fewer),
                )
        away = {each.broker_id for each in self.losses.missing}
        for each in before.missing:
            if each.broker_id not in away:
                away_s = round((self._now_ms() - each.since_ms) / 1000, 1)
                self._log.info("broker is back", broker=each.named, away_s=away_s)
