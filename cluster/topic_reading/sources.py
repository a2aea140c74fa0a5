"""Finds the clients and the serdes by which the HTTP server reads a topic. The coordinator calls these functions: the
program stays with it, as a reader need not have all of its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ray import cloudpickle

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.topic_reading.keys import KeyForm, key_form
from penstock.cluster.topic_reading.topic_serdes import KnownTopics, TopicSerdes
from penstock.common.config import StreamsConfig
from penstock.common.secrets import Entries
from penstock.common.serdes import Serde
from penstock.kafka.clients import ConfluentClients, KafkaClients

_CLIENT_ID = "penstock-page"
_SMALL: Mapping[str, Any] = {
    "queued.max.messages.kbytes": 2048,
    "queued.min.messages": 1000,
    "max.partition.fetch.bytes": 1 << 20,
    "fetch.max.bytes": 16 << 20,
}
"""Settings that bound the memory of a consumer which reads a little."""


@dataclass(frozen=True)
class PickledSerdes:
    """The serdes of a topic, pickled, or the reason why they cannot be. ``use``: of the topic in the application."""

    use: str
    pickled: bytes = b""
    problem: str | None = None

    @staticmethod
    def of(serdes: TopicSerdes) -> PickledSerdes:
        """Pickle ``serdes``."""
        try:
            pickled: bytes = cloudpickle.dumps((serdes.key, serdes.value))  # type: ignore[no-untyped-call]  # Ray's
        except Exception as error:  # pickling runs code of the user's objects
            why = f"its serdes cannot be sent to the HTTP server: {type(error).__name__}: {error}"
            return PickledSerdes(serdes.use, problem=why)
        return PickledSerdes(serdes.use, pickled)

    def unpickled(self) -> TopicSerdes | str:
        """Returns the serdes, or the reason why they cannot be used here. Imports the user's code."""
        if self.problem is not None:
            return self.problem
        try:
            key: Serde[Any]
            value: Serde[Any]
            key, value = cloudpickle.loads(self.pickled)
        except Exception as error:  # see above
            return f"its serdes cannot be used in the HTTP server: {type(error).__name__}: {error}"
        return TopicSerdes(key, value, self.use)


@dataclass(frozen=True)
class TopicSource:
    """The means to read one topic. ``serdes`` is None if the application has no such topic; ``uses`` has those that it
    has. ``keys``: the form of a store's keys in its changelog; None if they cannot be found, or for another topic."""

    clients: KafkaClients
    committed_only: bool
    serdes: PickledSerdes | None
    uses: Mapping[str, str] = field(default_factory=dict)
    keys: KeyForm | None = None


def reading_clients(config: StreamsConfig) -> ConfluentClients:
    """Returns clients that read as the application does, and fetch little ahead. They are in no group."""
    clients = ConfluentClients.of(config)
    overrides = Entries({**clients.consumer_overrides, **_SMALL})
    return replace(clients, group=_CLIENT_ID, consumer_overrides=overrides, exactly_once=False)


def topic_uses(spec: ApplicationSpec) -> dict[str, str]:
    """Returns the topics that the application reads and writes, with the use of each. Topics that a function of the
    program chooses are not among them."""
    return KnownTopics(spec.topology, spec.config).uses


def topic_source(spec: ApplicationSpec, topic: str) -> TopicSource:
    """Returns the means to read ``topic``."""
    topics = KnownTopics(spec.topology, spec.config)
    found = topics.find(topic)
    clients = reading_clients(spec.config)
    serdes = None if found is None else PickledSerdes.of(found)
    return TopicSource(clients, clients.reads_committed, serdes, topics.uses)


def changelog_source(spec: ApplicationSpec, store: str, changelog: str) -> TopicSource:
    """Returns the means to read the ``changelog`` of a store."""
    return replace(topic_source(spec, changelog), keys=key_form(spec.topology.store_builders[store]))
