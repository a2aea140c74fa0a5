"""Queries of stores that travel to a stream actor, and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.common.ids import TaskId
from penstock.common.position import NOWHERE, Position
from penstock.state.queries import Query, QueryRow


@dataclass(frozen=True)
class StoreQuery:
    """One question to one task's store: at most ``limit`` rows, those after the row with the key ``after``.

    ``committed`` leaves out what is not yet committed. ``bound``: the store must have come that far; of a task, the
    offsets of its own partition count. ``stale``: a standby may answer, or a task that restores.
    """

    task_id: TaskId
    store: str
    query: Query
    after: bytes | None = None
    limit: int = 1
    committed: bool = False
    bound: Position | None = None
    stale: bool = False


class QueryFailure(Enum):
    """Reasons for which a question has no answer (names of Kafka Streams' ``FailureReason``, which has no BUSY or
    UNKNOWN_TOPIC)."""

    NOT_PRESENT = "the task is not on this actor"
    NOT_ACTIVE = "the task restores"
    DOES_NOT_EXIST = "the task has no such store"
    STORE_EXCEPTION = "the store cannot be read"
    UNKNOWN_QUERY_TYPE = "this kind of store does not answer this kind of query"
    NOT_UP_TO_BOUND = "the store has not reached the demanded position"
    UNKNOWN_TOPIC = "the demanded position is of topics from which the store is not made"
    BUSY = "too many calls with ranges wait"


@dataclass(frozen=True)
class StoreAnswer:
    """The answer to one :class:`StoreQuery`: its rows, or the reason why there is none.

    ``size``: about the size of the rows of a range, in bytes. ``more``: the rows were cut off; ask for the rest from
    after ``reached``. ``position``: the position of the store when the first row was read. ``answered``: the queries of
    a store that does not answer this one.
    """

    rows: tuple[QueryRow, ...] = ()
    failure: QueryFailure | None = None
    detail: str = ""
    size: int = 0
    more: bool = False
    reached: bytes | None = None
    position: Position = NOWHERE
    answered: tuple[str, ...] = ()
