"""Exactly once: one transaction of an actor for everything that its tasks do between two commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

from typing_extensions import override

from penstock.actors.clock import Clock
from penstock.actors.commit_messages import CommitAnswer
from penstock.actors.commits.guarantee import (
    ANSWER_SLICE_S,
    Ask,
    AtLeastOnce,
    Guarantee,
    Pauses,
    RefusedError,
    answer_to,
    close_aside,
)
from penstock.actors.steps import Steps, WaitLog
from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.log import logger
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import TransactionAbortedError, TransactionalProducer, UndeliveredError

_AGAIN_S = 0.2
_ABORT_AT_THE_END_S = 2.0


def transactional_id(application_id: str, process_id: str, slot: int) -> str:
    """Returns the id of the actor in this slot; as in Kafka Streams ``<application.id>-<process id>-<number>``."""
    return f"{application_id}-{process_id}-{slot}"


class ExactlyOnce(Guarantee):
    """One transaction of the actor's producer for all its tasks: results, changelogs and offsets.

    Two rules keep two owners of a task apart. The coordinator takes the ``transactional.id`` of an actor before it
    gives a task elsewhere that the actor did not release. The group takes offsets only from its current member. So the
    actor takes its id first, then asks the coordinator as which member it may commit, and only then reads where its
    tasks continue. If either changes after that, Kafka refuses the commit, and all three steps are repeated.
    """

    beside_records = False  # the transaction would commit their output, but not their input
    exactly_once = True

    def __init__(
        self, make: Callable[[], TransactionalProducer], ask: Ask, is_awaited: Callable[[], bool], clock: Clock
    ) -> None:
        """``is_awaited``: returns True if another order of the coordinator has arrived meanwhile."""
        self.in_doubt = False
        self._make = make
        self._ask = ask
        self._is_awaited = is_awaited
        self._clock = clock
        self._log = logger(__name__)
        self._group_metadata: bytes | None = None
        self._pauses = Pauses()
        self._asked: Future[None]  # the producer is in use until it is done
        self.producer: TransactionalProducer

    @override
    def opening(self) -> list[Steps[None]]:
        return [self._take_id()]

    def _take_id(self) -> Steps[None]:
        """Make a producer and take the id: the producer that had it before can write nothing more."""
        wait = WaitLog("transactional id is not taken yet", "transactional id is taken", self._clock)
        while True:
            producer = self._make()
            try:
                yield from self._answer(producer, producer.init_transactions(), "take the transactional id")
            except (BrokerUnreachableError, TransactionAbortedError) as error:
                self._close_when_free(producer)
                wait.continues(error)
                yield _AGAIN_S
            else:
                wait.is_over()
                self.producer, self.in_doubt = producer, False  # taking the id has ended its last transaction
                producer.begin_transaction()
                return

    @override
    def reopening(self) -> Steps[None]:
        if not hasattr(self, "producer"):
            yield from self._take_id()

    @override
    def find_group_metadata(self) -> Steps[CommitAnswer]:
        if self._group_metadata is not None:
            return CommitAnswer(True)
        answer = yield from answer_to(self._ask({}))
        if answer.accepted:
            self._group_metadata = answer.group_metadata
        return answer

    @override
    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Steps[CommitAnswer]:
        assert self._group_metadata is not None  # found before any of the tasks was opened
        asked = self.producer.commit_transaction(offsets, self._group_metadata)
        try:
            yield from self._answer(self.producer, asked, "commit a transaction")
        except TransactionAbortedError as error:
            self.in_doubt = error.producer_is_spent
            raise
        self.producer.begin_transaction()
        self._pauses.reset()
        return CommitAnswer(True)

    @override
    def go_back(self, error: UndeliveredError) -> Steps[None]:
        self._group_metadata = None
        yield self._pauses.next_s()
        if not error.producer_is_spent:
            try:
                yield from self._answer(self.producer, self.producer.abort_transaction(), "abort a transaction")
                self.producer.begin_transaction()
            except TransactionAbortedError as spent:
                self._log.warning("transaction not aborted, taking the id with a new producer", error=str(spent))
            else:
                return
        self._close_when_free(self.producer)
        del self.producer  # if the actor ends now, there is no transaction to abort
        yield from self._refuse_if_expelled()
        yield from self._take_id()

    def _refuse_if_expelled(self) -> Steps[None]:
        """Raises RefusedError if this actor is no longer part of the application. Then it must not take its id back,
        since the actor that has it now would have to begin again.

        The coordinator answers at once, even while it waits for this actor to confirm an assignment, unless it is away.
        The wait also ends when an order arrives, which shows that the actor still belongs to the application.
        """
        asked = self._ask({}, presence=True)
        while not self._is_awaited():
            if asked.done():
                if not (answer := asked.result()).accepted:
                    raise RefusedError(answer.reason)
                return
            yield ANSWER_SLICE_S

    def _answer(self, producer: TransactionalProducer, asked: Future[None], what: str) -> Steps[None]:
        """Wait for the answer to a call of ``producer``. Raises TransactionAbortedError after ``answers_within_s``."""
        self._asked = asked
        given_up_s = self._clock.monotonic_s() + producer.answers_within_s
        while not asked.done():
            if self._clock.monotonic_s() >= given_up_s:
                message = f"cannot {what}: librdkafka has not returned for {producer.answers_within_s:.0f} s"
                raise TransactionAbortedError(message, producer_is_spent=True)
            yield ANSWER_SLICE_S
        yield from answer_to(asked)

    def _close_when_free(self, producer: TransactionalProducer) -> None:
        """Close ``producer`` when no call uses it. A client in use must not be destroyed: it remains open until the
        call returns, if it does."""
        if self._asked.done():
            close_aside(producer)
        else:
            self._asked.add_done_callback(lambda _: producer.close())

    @override
    def withhold(self) -> None:
        """Does nothing: Kafka itself rejects writes of a fenced producer."""

    @override
    def resume(self) -> None:
        """Does nothing: nothing was withheld."""

    @override
    def check(self) -> None:
        """Does nothing: no record was dropped."""

    @override
    def close(self) -> None:
        if not hasattr(self, "producer"):
            return
        # An open transaction is aborted by the next producer with this id, or by the broker (transaction.timeout.ms).
        try:
            self._asked.result(_ABORT_AT_THE_END_S)
            self.producer.abort_transaction().result(_ABORT_AT_THE_END_S)
        except TimeoutError:
            self._log.warning("broker does not answer, transaction left open")
            return  # its client is in use
        except StreamsError as error:
            self._log.info("transaction left open", error=str(error))
        self.producer.close()


def guarantee_of(
    config: StreamsConfig,
    process_id: str,
    slot: int,
    clients: KafkaClients,
    ask: Ask,
    is_awaited: Callable[[], bool],
    clock: Clock,
) -> Guarantee:
    """Returns the guarantee for the actor in ``slot``. ``ask`` asks the coordinator."""
    if config.processing_guarantee == "at_least_once":
        return AtLeastOnce(clients.producer, ask)
    name = transactional_id(config.application_id, process_id, slot)
    return ExactlyOnce(partial(clients.transactional_producer, name), ask, is_awaited, clock)
