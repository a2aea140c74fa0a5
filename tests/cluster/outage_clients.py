"""Clients of the fake broker that behave as librdkafka does in an outage: records expire, and transactions time out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from typing_extensions import override

from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import Offsets
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import (
    Admin,
    GroupMember,
    RecordConsumer,
    RecordProducer,
    TransactionAbortedError,
    TransactionalProducer,
)
from penstock.testing.fake_clients import FakeClients
from penstock.testing.fake_producers import FakeProducer, FakeTransactionalProducer

APPLICATION, STATIC_MEMBER = "app", "member"
MESSAGE_TIMEOUT_S = 120.0
INIT_S, END_S, ABORT_S = 10.0, 10.0, 5.0
"""The time-outs of ``kafka/transactions.py``."""
LOOK_S = 0.5


class _Expiring(FakeProducer):
    """Gives up records that no broker has taken for ``lives_s``."""

    lives_s = MESSAGE_TIMEOUT_S
    _waits_since_s: float | None = None

    @override
    def poll(self) -> None:
        super().poll()
        now_s = asyncio.get_running_loop().time()
        if not self._queue:
            self._waits_since_s = None
        elif self._waits_since_s is None:
            self._waits_since_s = now_s
        elif now_s - self._waits_since_s >= self.lives_s:
            self._waits_since_s = None
            self.expire()


class _Transactional(_Expiring, FakeTransactionalProducer):
    """Answers late, or not at all, while the broker is away."""

    lives_s = END_S

    @override
    def init_transactions(self) -> Future[None]:
        return self._begun(super().init_transactions, INIT_S, BrokerUnreachableError("no id: nobody answers"))

    @override
    def commit_transaction(self, offsets: Offsets, group_metadata: bytes) -> Future[None]:
        error = TransactionAbortedError("no commit: nobody answers", producer_is_spent=True)
        return self._begun(partial(super().commit_transaction, offsets, group_metadata), END_S, error)

    @override
    def abort_transaction(self) -> Future[None]:
        error = TransactionAbortedError("no abort: nobody answers", producer_is_spent=True)
        return self._begun(super().abort_transaction, ABORT_S, error)

    def _begun(self, call: Callable[[], Future[None]], within_s: float, late: StreamsError) -> Future[None]:
        if self._broker.answers:
            return call()
        done: Future[None] = Future()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s

        def look() -> None:
            if self._broker.answers:
                asked = call()
                error = asked.exception()
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
            elif loop.time() >= until_s:
                done.set_exception(late)
            else:
                loop.call_later(LOOK_S, look)

        look()
        return done


@dataclass(frozen=True)
class Clients(KafkaClients):
    """The clients of the fake broker, except for the producers."""

    fake: FakeClients

    @override
    def consumer(self) -> RecordConsumer:
        return self.fake.consumer()

    @override
    def restore_consumer(self) -> RecordConsumer:
        return self.fake.restore_consumer()

    @override
    def producer(self) -> RecordProducer:
        return _Expiring(self.fake.broker)

    @override
    def transactional_producer(self, transactional_id: str) -> TransactionalProducer:
        return _Transactional(self.fake.broker, APPLICATION, transactional_id)

    @override
    def admin(self) -> Admin:
        return self.fake.admin()

    @override
    def group_member(self, instance: str) -> GroupMember:
        return self.fake.group_member(instance)
