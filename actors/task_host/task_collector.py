"""A producer as the collector of a task."""

from __future__ import annotations

from penstock.common.errors import BrokerUnreachableError
from penstock.kafka.contracts import RecordProducer, UndeliveredError
from penstock.tasks.contracts import Send


class TaskCollector:
    """Passes the records of a task directly to the producer.

    An outage must end no task. Most topics are looked up before a task begins, and the look-up is repeated until a
    broker answers. A topic that a function chooses is looked up with its first record: if no broker answers then, the
    task goes back to its last commit, and does so until one answers.
    """

    def __init__(self, producer: RecordProducer) -> None:
        self.send: Send = producer.send
        self._producer = producer

    def partitions(self, topic: str) -> int:
        """Returns the number of partitions of ``topic``. Raises MissingTopicError, and UndeliveredError if no broker
        answers."""
        try:
            return self._producer.partitions(topic)
        except BrokerUnreachableError as error:
            raise UndeliveredError(f"no broker answers how many partitions topic {topic!r} has: {error}") from error
