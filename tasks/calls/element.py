"""An element: one record in an operator that calls out, from its arrival until its result is forwarded, or has
failed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from penstock.common.ids import TopicPartition
from penstock.common.records import Headers

WAITING, RUNNING, RETRYING, FOLLOWING, DONE, FAILED, GONE = range(7)
"""The states of an element. It waits for its turn; its call runs; it has failed and will be tried again; it shares the
call of an equal one; its result is there; it has failed for good; it has left the operator."""


class Element:
    """See the module. ``key`` to ``offset`` are the record and its position in Kafka.

    ``lineage``: tells apart the elements that one source record has led to. ``time``: stream time (ms) when the record
    arrived at the task; ``partition_time``: the largest timestamp of its partition before it. ``size``: its approximate
    size in bytes. ``chain``: elements of the same chain run one after the other; None if it need not wait for any.
    ``same``: elements with an equal value of it need only one call; None if the element shares no call. ``raw``: the
    source record as it was read, if a handler of exceptions may ask for it. Other times are the host's, in ms.
    """

    __slots__ = (
        "chain", "deadline_ms", "ended_ms", "error", "followers", "headers", "key", "lineage", "number", "offset",
        "partition_time", "raw", "result", "same", "size", "source", "started_ms", "state", "time", "timestamp",
        "tries", "value",
    )  # fmt: skip

    def __init__(
        self,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers | None = None,
        source: TopicPartition | None = None,
        offset: int = -1,
        lineage: str = "",
        time: int = -1,
        partition_time: int = -1,
        size: int = 0,
        chain: Hashable = None,
        same: Hashable = None,
    ) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers
        self.source = source
        self.offset = offset
        self.lineage = lineage
        self.time = time
        self.partition_time = partition_time
        self.size = size
        self.chain = chain
        self.same = same
        self.state = WAITING
        self.tries = 0
        self.number = -1
        self.started_ms = 0.0
        self.ended_ms = 0.0
        self.deadline_ms = 0.0
        self.raw: tuple[bytes | None, bytes | None] | None = None
        self.result: Any = None
        self.error: Exception | None = None
        self.followers: list[Element] | None = None
