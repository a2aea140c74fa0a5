"""Makes clients of Kafka: one picklable value for every host, which tests replace by the fake broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from typing_extensions import override

from penstock.common.config import CLIENTS, StreamsConfig, is_security_key
from penstock.common.secrets import Entries
from penstock.kafka.contracts import Admin, GroupMember, RecordConsumer, RecordProducer, TransactionalProducer


class KafkaClients(Protocol):
    """Makes the clients of one application. Picklable."""

    def consumer(self) -> RecordConsumer:
        """Returns a consumer of assigned partitions that can read the committed offsets of the application's group."""

    def restore_consumer(self) -> RecordConsumer:
        """Like :meth:`consumer`, to restore stores that tasks wait for: it detects an end within 10 ms."""

    def producer(self) -> RecordProducer:
        """Returns a producer."""

    def transactional_producer(self, transactional_id: str) -> TransactionalProducer:
        """Returns a producer of transactions."""

    def admin(self) -> Admin:
        """Returns a client for topics and offsets."""

    def group_member(self, instance: str) -> GroupMember:
        """Returns a static member of the application's group; ``instance`` is its id."""


@dataclass(frozen=True)
class ConfluentClients(KafkaClients):
    """:class:`KafkaClients` on confluent-kafka; librdkafka is loaded by the first client, not by this value."""

    bootstrap_servers: str
    group: str
    consumer_overrides: Mapping[str, Any] = field(default_factory=dict)
    producer_overrides: Mapping[str, Any] = field(default_factory=dict)
    admin_overrides: Mapping[str, Any] = field(default_factory=dict)
    exactly_once: bool = False
    """True if the application writes transactions."""

    @classmethod
    def of(cls, config: StreamsConfig) -> ConfluentClients:
        """Returns the clients for ``config``. Raises ConfigError for an entry that penstock must set itself, and for
        one that librdkafka refuses."""
        from penstock.kafka.client_settings import check_client_settings
        from penstock.kafka.settings import check_exactly_once, check_heartbeat, check_overrides

        check_client_settings("", config.security_entries)
        entries = {prefix: config.client_entries(prefix) for prefix in CLIENTS}
        for prefix, overrides in entries.items():
            check_overrides(prefix, overrides)
            check_client_settings(prefix, overrides)
        check_heartbeat(entries["consumer."])
        if config.processing_guarantee == "exactly_once_v2":
            check_exactly_once(entries["consumer."], entries["producer."], config.commit_interval_ms)
            entries["consumer."] = Entries({**entries["consumer."], "isolation.level": "read_committed"})
        return cls(
            config.bootstrap_servers,
            config.application_id,
            entries["consumer."],
            entries["producer."],
            entries["admin."],
            config.processing_guarantee == "exactly_once_v2",
        )

    @property
    def reads_committed(self) -> bool:
        """True if the application's consumers skip records of transactions that are not committed."""
        return self.consumer_overrides.get("isolation.level") == "read_committed"

    def try_out(self) -> None:
        """Make each client once, and close it. Connect to a broker with each client whose security settings differ from
        those of the admin client. Exactly once, also take a ``transactional.id``, which no actor uses.

        Raises ConfigError for settings that contradict each other, and for files that do not exist; KafkaRefusedError
        and BrokerUnreachableError as :meth:`Admin.reach` does.
        """
        from penstock.kafka.admin import ConfluentAdmin

        for client in (self.consumer(), self.producer(), self.group_member("try-out")):
            client.close()
        tried = [_security(self.admin_overrides)]
        for overrides in (self.consumer_overrides, self.producer_overrides):
            if (security := _security(overrides)) not in tried:
                tried.append(security)
                ConfluentAdmin(self.bootstrap_servers, security).reach()
        if self.exactly_once:
            self.take_id(f"{self.group}-try-out", "try out exactly once")

    def take_id(self, transactional_id: str, what: str) -> None:
        """Take ``transactional_id`` for a moment: Kafka then refuses all writes of its last owner. ``what`` is for the
        error. Raises BrokerUnreachableError, also when librdkafka does not return, and KafkaRefusedError."""
        from penstock.kafka.transactions import take_id

        take_id(self.transactional_producer(transactional_id), what)

    @override
    def consumer(self) -> RecordConsumer:
        from penstock.kafka.consumer import ConfluentConsumer

        return ConfluentConsumer(self.bootstrap_servers, self.group, self.consumer_overrides)

    @override
    def restore_consumer(self) -> RecordConsumer:
        from penstock.kafka.consumer import ConfluentConsumer
        from penstock.kafka.settings import RESTORING

        return ConfluentConsumer(self.bootstrap_servers, self.group, Entries({**RESTORING, **self.consumer_overrides}))

    @override
    def producer(self) -> RecordProducer:
        from penstock.kafka.producer import open_producer

        return open_producer(self.bootstrap_servers, self.producer_overrides)

    @override
    def transactional_producer(self, transactional_id: str) -> TransactionalProducer:
        from penstock.kafka.transactions import open_transactional_producer

        return open_transactional_producer(self.bootstrap_servers, transactional_id, self.producer_overrides)

    @override
    def admin(self) -> Admin:
        from penstock.kafka.admin import ConfluentAdmin

        return ConfluentAdmin(self.bootstrap_servers, self.admin_overrides)

    @override
    def group_member(self, instance: str) -> GroupMember:
        from penstock.kafka.group_member import ConfluentGroupMember

        return ConfluentGroupMember(self.bootstrap_servers, self.group, instance, self.consumer_overrides)


def _security(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return Entries((key, value) for key, value in overrides.items() if is_security_key(key) or key == "oauth_cb")
