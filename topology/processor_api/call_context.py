"""``CallContext``: the record that a call is made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.common.records import Headers, RecordMetadata


@dataclass(frozen=True, slots=True)
class CallContext:
    """The second argument of a function that calls out, if it takes two.

    ``key``, ``timestamp`` (ms) and ``headers`` are those of the record, ``source`` is its topic, partition and offset
    (None if it comes from no record, but from a punctuator). ``attempt`` counts the tries of this call from 1.
    ``idempotency_key`` is the same in every try of this call, also after a crash, and differs from that of every other
    call. A service that has seen it before can ignore the call. It is made of application, task, operator, source, and
    the number of the record among those that the source record has led to. Without a source it has the time of the
    punctuation instead, which the wall clock does not repeat after a crash.
    """

    key: Any
    timestamp: int
    headers: Headers
    source: RecordMetadata | None
    attempt: int
    idempotency_key: str
