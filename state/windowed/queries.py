"""What may be asked of window stores and session stores, as values; the names are KIP-796's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.state.queries import Query


@dataclass(frozen=True)
class WindowKeyQuery(Query):
    """The windows of ``key`` that start between the times (ms), both included."""

    single: ClassVar[bool] = False
    key: bytes
    time_from: int
    time_to: int


@dataclass(frozen=True)
class WindowRangeQuery(Query):
    """The windows of every key that start between the times (ms), both included."""

    single: ClassVar[bool] = False
    time_from: int
    time_to: int


@dataclass(frozen=True)
class SessionQuery(Query):
    """The sessions of ``key``. Kafka Streams: ``WindowRangeQuery.withKey``."""

    single: ClassVar[bool] = False
    key: bytes
