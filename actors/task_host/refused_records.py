"""Records that a broker refuses long after their operator has sent them: the error names them, or the tasks make them
again for a handler.

By the time of the refusal it is not known from which input record a result came. So the tasks go back to the last
commit and make their results again. When a sink sends a refused record again, the refusal is an error of that call, and
``production.exception.handler`` decides with all that is known. Under exactly once, the transaction is aborted in any
case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import ClassVar

from penstock.actors.task_host.hosted_task import HostedTask
from penstock.common.config import StreamsConfig
from penstock.common.errors import ProductionError, RecordRefusedError
from penstock.common.handlers import DefaultProductionExceptionHandler
from penstock.common.ids import TopicPartition
from penstock.common.records import Headers
from penstock.kafka.contracts import CountingSender, RecordProducer, RefusedRecord, Sending, UndeliveredError
from penstock.kafka.counting import PlainCountingSender
from penstock.tasks.program import TaskProgram

_Content = tuple[str, bytes | None, bytes | None]
"""Topic, key and value of a record."""
_KEPT_S = 60.0
"""Seconds for which a refusal counts: after that the topic's limit may have been raised."""
_MOST_ROUNDS = 20
"""Number of times that the tasks go back without progress before the application ends."""
_FLUSH_S, _FLUSHES = 0.05, 200


class RecordsRefusedError(UndeliveredError):
    """A broker has refused records because of their content: the tasks go back, so that a handler decides about
    each."""

    happened: ClassVar[str] = "records refused by the broker"


class RefusedRecords:
    """The records that brokers have refused of late. ``clock``: returns seconds."""

    def __init__(self, config: StreamsConfig, clock: Callable[[], float]) -> None:
        handler, letters = config.production_exception_handler, config.errors_dead_letter_queue_topic_name
        self._asks = type(handler) is not DefaultProductionExceptionHandler or letters is not None
        self._clock = clock
        self._guilty: set[_Content] = set()
        self._suspects: set[_Content] = set()
        self._kept_until_s = 0.0
        self._rounds = 0
        self._committed: dict[TopicPartition, int] = {}

    def going_back(
        self, error: ProductionError, refused: Collection[RefusedRecord], tasks: Collection[HostedTask]
    ) -> UndeliveredError | None:
        """Returns the error for which ``tasks`` go back; None if the application fails because of ``error``.

        It fails if no handler could decide otherwise, if a changelog is concerned, whose store would then lose a row
        with the next restore, or if the tasks went back many times without progress.
        """
        if not self._asks or not refused or not isinstance(error, RecordRefusedError):
            return None
        changelogs = {log.topic for hosted in tasks for log in hosted.state_manager.program.changelogs.values()}
        if any(record.topic in changelogs for record in refused):
            return None
        committed = {tp: offset.offset for hosted in tasks for tp, offset in hosted.committed.items()}
        self._rounds = self._rounds + 1 if committed == self._committed else 1
        if self._rounds > _MOST_ROUNDS:
            return None
        self._committed = committed
        self._note(refused)
        return RecordsRefusedError(error.what)

    def _note(self, refused: Collection[RefusedRecord]) -> None:
        """A broker refuses a batch as a whole. If the batch has one record, this is the one that it refuses. Otherwise
        each is sent alone the next time."""
        now_s = self._clock()
        if now_s >= self._kept_until_s:
            self._guilty.clear()
            self._suspects.clear()
        self._kept_until_s = now_s + _KEPT_S
        by_partition: dict[TopicPartition, set[_Content]] = {}
        for topic, partition, key, value in refused:
            by_partition.setdefault(TopicPartition(topic, partition), set()).add((topic, key, value))
        for contents in by_partition.values():
            (self._guilty if len(contents) == 1 else self._suspects).update(contents)
        self._suspects -= self._guilty

    def around(self, producer: RecordProducer) -> Sending:
        """Returns ``producer``, or, after a refusal, a sender through it that recognises the refused records."""
        return _Recognising(producer, self) if self._guilty or self._suspects else producer

    def is_guilty(self, content: _Content) -> bool:
        """Returns True if a broker has refused a record of this content."""
        return content in self._guilty and self._clock() < self._kept_until_s

    def is_suspect(self, content: _Content) -> bool:
        """Returns True if a broker has refused a batch with a record of this content."""
        return content in self._suspects


class _Recognising(Sending):
    """Sends through ``producer``, except records that are known to be refused."""

    def __init__(self, producer: RecordProducer, refused: RefusedRecords) -> None:
        self._producer = producer
        self._refused = refused

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        content = topic, key, value
        if self._refused.is_guilty(content):
            what = f"the record cannot be written to topic {topic!r}: the broker has refused it"
            raise RecordRefusedError(what, topic=topic, partition=partition, key=key)
        if not self._refused.is_suspect(content):
            self._producer.send(topic, key, value, timestamp, headers, partition)
            return
        self._flush()
        self._producer.send(topic, key, value, timestamp, headers, partition)
        self._flush()

    def _flush(self) -> None:
        for _ in range(_FLUSHES):
            if self._producer.flush(_FLUSH_S):
                return
        raise UndeliveredError("the broker does not answer whether it takes a record that it has refused in a batch")

    def partitions(self, topic: str) -> int:
        return self._producer.partitions(topic)

    def counting(self) -> CountingSender:
        return PlainCountingSender(self.send)


def with_writer(error: BaseException, tasks: Iterable[HostedTask]) -> BaseException:
    """Returns ``error``, or, for such a refusal, an error that names the operator or store that writes to the topic,
    and the committed offsets of the input: the record came from one of these offsets or a later one."""
    if not isinstance(error, ProductionError) or error.operator is not None or error.topic is None:
        return error
    writing = {hosted: name for hosted in tasks if (name := _writer(hosted.state_manager.program, error.topic))}
    if not writing:
        return error
    since = sorted(
        f"{tp} from offset {committed.offset} on" for it in writing for tp, committed in it.committed.items()
    )
    made_of = f"; it came from an input record after the last commit: {', '.join(since)}" if since else ""
    operator = " or ".join(sorted(set(writing.values())))
    raised = ProductionError(
        error.what + made_of, operator=operator, topic=error.topic, partition=error.partition, key=error.key
    )
    raised.__cause__ = error
    return raised


def _writer(program: TaskProgram, topic: str) -> str | None:
    if (name := program.sinks.get(topic)) is not None:
        return name
    if topic == program.config.errors_dead_letter_queue_topic_name:
        return "dead letters of the exception handlers"
    return next((f"store {store}" for store, log in program.changelogs.items() if log.topic == topic), None)
