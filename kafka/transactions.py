"""Transactions on librdkafka, and the meaning of its errors for the tasks that wrote the records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NoReturn, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Tpo
from typing_extensions import override

from penstock.common.errors import BrokerUnreachableError, KafkaRefusedError
from penstock.common.ids import Offsets
from penstock.kafka.binding import binding, supports
from penstock.kafka.contracts import TransactionAbortedError, TransactionalProducer
from penstock.kafka.producer import ConfluentProducer
from penstock.kafka.refusals import SPENT, refused_in_transaction
from penstock.kafka.settings import REFUSED_FOR_GOOD, as_streams_error, error_text, transactional_settings

_INIT_S = 10.0
_INIT_AGAIN_S = 0.05
"""Seconds after which the call is repeated. The first request for an id whose transaction is open only makes the broker
end that transaction, which takes some 10 ms; then it must be sent again. librdkafka sends it after 500 ms, or when the
call is repeated."""
_COMMIT_S = 5.0, 60.0
"""Shortest and longest time of a commit, in seconds (the latter as Java's ``max.block.ms``). If a commit takes longer
than ``transaction.timeout.ms``, the broker aborts the transaction, or its outcome is unknown until a new producer asks.
So it is useless to wait longer."""
_ABORT_S = 5.0
_LATE_S = 5.0
"""Seconds that librdkafka may take to return after its own time-out. While it looks for the group's coordinator it may
never return (its issues 5456 and 5511): observed when all connections were cut meanwhile."""
_REFUSED = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "allow this client to describe and write transactional ids that begin with '<application.id>-'"
    ),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "allow this client to write idempotently",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "lower producer.transaction.timeout.ms, or raise the brokers' transaction.max.timeout.ms"
    ),
}
"""Errors that do not pass by waiting, with the advice for each."""


class _Client(Protocol):
    """A client of librdkafka that has a ``transactional.id``; its calls raise KafkaException."""

    def init_transactions(self, timeout_s: float) -> None: ...
    def begin_transaction(self) -> None: ...
    def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any, timeout_s: float) -> None: ...
    def commit_transaction(self, timeout_s: float) -> None: ...
    def abort_transaction(self, timeout_s: float) -> None: ...


class Transactions:
    """The calls of :class:`~penstock.kafka.contracts.TransactionalProducer` that are about transactions.

    librdkafka supports only the first version of Kafka's transactions. If an answer does not arrive, the next request
    might take effect in another transaction. So such a producer is spent.
    """

    def __init__(self, client: _Client, address: str, settings: Mapping[str, Any]) -> None:
        """``settings``: of ``client``."""
        self._client = client
        self._id = settings["transactional.id"]
        self._address = address
        self._commit_s = commit_timeout_s(settings)

    def init(self) -> Future[None]:
        """See the contract."""
        return self._in_thread(self._init)

    def commit(self, offsets: Any, group_metadata: Any) -> Future[None]:
        """See the contract."""
        return self._in_thread(lambda: self._commit(offsets, group_metadata))

    def abort(self) -> Future[None]:
        """See the contract."""
        return self._in_thread(self._abort)

    def begin(self) -> None:
        """See the contract."""
        try:
            self._client.begin_transaction()
        except KafkaException as error:
            self._failed("begin a transaction", error)

    def _in_thread(self, call: Callable[[], None]) -> Future[None]:
        done: Future[None] = Future()
        threading.Thread(target=_settle, args=(done, call), name="transaction", daemon=True).start()
        return done

    def _init(self) -> None:
        until_s = time.monotonic() + _INIT_S
        while True:
            try:
                self._client.init_transactions(_INIT_AGAIN_S)
            except KafkaException as error:
                detail: KafkaError = error.args[0]
                if detail.retriable() and time.monotonic() < until_s:
                    continue  # the call continues; librdkafka does not send a pending request twice
                if detail.retriable() or detail.code() in SPENT:  # another producer takes the id now
                    detail = KafkaError(KafkaError._TIMED_OUT, detail.str())
                what = f"take the transactional id {self._id!r}"
                if (advice := _REFUSED.get(detail.code())) is not None:
                    raise KafkaRefusedError(f"cannot {what}: {error_text(detail)}: {advice}") from error
                raise as_streams_error(KafkaException(detail), what, self._address) from error
            else:
                return

    def _commit(self, offsets: Any, group_metadata: Any) -> None:
        until_s = time.monotonic() + self._commit_s
        try:
            if offsets:
                self._client.send_offsets_to_transaction(offsets, group_metadata, self._commit_s)
            self._client.commit_transaction(max(1.0, until_s - time.monotonic()))
        except KafkaException as error:
            self._failed("commit a transaction", error)

    def _abort(self) -> None:
        try:
            self._client.abort_transaction(_ABORT_S)
        except KafkaException as error:
            detail: KafkaError = error.args[0]
            what = f"cannot abort a transaction: {error_text(detail)}"
            raise TransactionAbortedError(what, producer_is_spent=True) from error

    def _failed(self, what: str, error: KafkaException) -> NoReturn:
        detail: KafkaError = error.args[0]
        if detail.code() in REFUSED_FOR_GOOD:
            raise as_streams_error(error, what, self._address) from error
        # Refused offsets of a deleted topic are no special case: if a pattern matched the topic, its tasks are revoked;
        # else its consumer ends the application if the topic does not return.
        spent = not detail.txn_requires_abort() or detail.code() in SPENT
        raise TransactionAbortedError(f"cannot {what}: {error_text(detail)}", producer_is_spent=spent) from error


def commit_timeout_s(settings: Mapping[str, Any]) -> float:
    """Returns the seconds that a commit may take."""
    least_s, most_s = _COMMIT_S
    return min(max(least_s, int(settings["transaction.timeout.ms"]) / 1000), most_s)


def answers_within_s(settings: Mapping[str, Any]) -> float:
    """See the contract."""
    return max(commit_timeout_s(settings), _INIT_S) + _LATE_S


def take_id(producer: TransactionalProducer, what: str) -> None:
    """Takes the ``transactional.id`` of ``producer``, and closes the producer. Kafka then refuses all writes of the
    last owner. Raises BrokerUnreachableError after ``answers_within_s``, because a call of librdkafka may never return.
    Then the producer remains open until the call returns: a client must not be destroyed during a call."""
    asked = producer.init_transactions()
    try:
        asked.result(producer.answers_within_s)
    except TimeoutError:
        asked.add_done_callback(lambda _: producer.close())
        raise BrokerUnreachableError(
            f"cannot {what}: librdkafka has not returned for {producer.answers_within_s:.0f} s"
        ) from None
    except BaseException:
        producer.close()
        raise
    producer.close()


def _settle(done: Future[None], call: Callable[[], None]) -> None:
    try:
        call()
    except BaseException as error:  # the caller that waits must get it
        done.set_exception(error)
        del done, call  # else the error's traceback, with this frame, would keep a client and its threads alive
    else:
        done.set_result(None)


def open_transactional_producer(
    bootstrap_servers: str, transactional_id: str, overrides: Mapping[str, Any]
) -> TransactionalProducer:
    """Returns a producer: the compiled one, which is faster, if it was built and supports these settings."""
    settings = transactional_settings(bootstrap_servers, transactional_id, overrides)
    if not supports(overrides) or binding() is None:
        return ConfluentTransactionalProducer(bootstrap_servers, settings)
    from penstock.kafka.native_producer import NativeTransactionalProducer

    return NativeTransactionalProducer(bootstrap_servers, settings)


class ConfluentTransactionalProducer(ConfluentProducer, TransactionalProducer):
    """:class:`~penstock.kafka.contracts.TransactionalProducer` on confluent-kafka."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, Any]) -> None:
        super().__init__(bootstrap_servers, settings, refused_in_transaction)
        self._transactions = Transactions(self._client, bootstrap_servers, settings)
        self.answers_within_s = answers_within_s(settings)

    @override
    def init_transactions(self) -> Future[None]:
        return self._transactions.init()

    @override
    def begin_transaction(self) -> None:
        self._transactions.begin()
        if self._failure is not None:  # of the aborted transaction
            self._forget_failure()

    @override
    def commit_transaction(self, offsets: Offsets, group_metadata: bytes) -> Future[None]:
        asked = [Tpo(*tp, committed.offset, committed.metadata) for tp, committed in offsets.items()]
        return self._transactions.commit(asked, group_metadata)

    @override
    def abort_transaction(self) -> Future[None]:
        return self._transactions.abort()
