"""A producer as the collector of a task."""

from __future__ import annotations

from typing import ClassVar

from penstock.common.errors import BrokerUnreachableError, RetriableError
from penstock.common.patience import Patience
from penstock.kafka.contracts import Sending, UndeliveredError
from penstock.tasks.contracts import Send

_PATIENCE_S = 0.75
"""Seconds for which a sink waits for its serde: meanwhile the actor does nothing else."""


class SerdeUnavailableError(UndeliveredError):
    """A serde could not answer, for example because its schema registry is away: the tasks continue from the last
    commit."""

    happened: ClassVar[str] = "a serde cannot answer"


def undelivered(error: UndeliveredError | RetriableError) -> UndeliveredError:
    """Returns the error that makes the tasks go back because of ``error``."""
    if isinstance(error, UndeliveredError):
        return error
    raised = SerdeUnavailableError(str(error))
    raised.__cause__ = error
    return raised


class TaskCollector:
    """Passes the records of a task directly to the producer.

    An outage must end no task. Most topics are looked up before a task begins, and the look-up is repeated until a
    broker answers. A topic that a function chooses is looked up with its first record: if no broker answers then, the
    task goes back to its last commit, and does so until one answers. The same happens if the serde of a sink cannot
    answer.
    """

    def __init__(self, producer: Sending) -> None:
        self.send: Send = producer.send
        self.wait = Patience(_PATIENCE_S, undelivered).wait
        self._producer = producer

    def partitions(self, topic: str) -> int:
        """Returns the number of partitions of ``topic``. Raises MissingTopicError, and UndeliveredError if no broker
        answers."""
        try:
            return self._producer.partitions(topic)
        except BrokerUnreachableError as error:
            raise UndeliveredError(f"no broker answers how many partitions topic {topic!r} has: {error}") from error
