"""Answers to queries of stores, given by the loop that owns the tasks."""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.actors.status import TaskState
from penstock.actors.store_queries import QueryFailure, StoreAnswer, StoreQuery
from penstock.actors.task_host.stored_task import Serialize
from penstock.common.errors import RetriableError, StateStoreCorruptError, UnknownQueryError
from penstock.common.ids import TaskId
from penstock.common.position import Position
from penstock.state.queries import PASSED, QueryRow
from penstock.state.rows.row_formats import UNCHANGEABLE
from penstock.tasks.state_manager import StateManager

CHUNK_ROWS = 500
"""Number of rows, about 2 ms of work, after which a range lets records and other queries go first."""
CHUNK_BYTES = 1 << 18
"""Number of bytes after which it does so."""
KEYS_A_STEP = 16
"""Most ranges of one key that a step reads, if they have few rows. (A key of a window store is looked up in all
tasks.)"""
ANSWER_BYTES = 4 << 20
"""Largest answer to a call of ranges, in bytes. A range ends at its share of it, with ``more`` set."""
MOST_CHUNKS = 200
"""Number of chunks after which an answer with few rows ends, with ``more`` set."""
LEAST_BYTES = 1 << 16
"""Least number of bytes of a range, however many others are in its call."""
MOST_WAITING_CALLS = 64
"""Number of waiting calls with ranges, above which further ranges are refused as BUSY.

Calls count, not ranges: a page asks all tasks of the actor in one call, and must be answered however many they are.
"""


class Answering(Protocol):
    """Stores that may be asked: those of a task, or the global ones."""

    @property
    def state_manager(self) -> StateManager:
        """The stores."""

    @property
    def state(self) -> TaskState:
        """The state; the stores answer while it is RUNNING."""

    @property
    def serializers(self) -> Mapping[str, Serialize]:
        """Serializers of the values of each store."""

    def position_of(self, store: str, committed: bool) -> Position:
        """Position of ``store``: the records that it has seen, or those that are ``committed``."""

    def topics_of(self, store: str) -> Collection[str]:
        """Returns the topics whose records ``store`` may have seen."""

    def lacks(self, store: str, bound: Position, seen: Position) -> bool:
        """Returns True if ``seen`` has not reached that part of ``bound`` that is its own."""


class AnsweringGlobally(Protocol):
    """The global stores of the actor."""

    @property
    def answering(self) -> Mapping[TaskId, Answering]:
        """The global stores by the ids under which they are asked."""


class QueryExecutor:
    """Answers calls of queries: look-ups at once, and ranges chunk by chunk, in turns. For one thread."""

    def __init__(
        self,
        tasks: Mapping[TaskId, Answering],
        standbys: Mapping[TaskId, Answering],
        global_stores: AnsweringGlobally,
    ) -> None:
        self._tasks = tasks
        self._standbys = standbys
        self._globals = global_stores
        self._ranges: deque[_Range] = deque()
        self._seen: dict[tuple[TaskId, str, bool], Position] = {}
        self._corrupt: StateStoreCorruptError | None = None

    @property
    def busy(self) -> bool:
        """True if ranges wait to be continued."""
        return bool(self._ranges)

    def submit(self, queries: Sequence[StoreQuery], done: Future[list[StoreAnswer]]) -> None:
        """Answer ``queries``. ``done`` gets the answers, in the order of the queries."""
        if not done.set_running_or_notify_cancel():
            return
        call = _Call(done, len(queries))
        self._seen.clear()
        ranges = sum(not query.query.single for query in queries)
        waiting = len({id(ranging.call) for ranging in self._ranges}) if ranges else 0
        for index, query in enumerate(queries):
            if query.query.single:
                call.answered(index, self._answer(query))
            elif waiting >= MOST_WAITING_CALLS:
                detail = f"{waiting} calls with ranges wait for an answer"
                call.answered(index, StoreAnswer(failure=QueryFailure.BUSY, detail=detail))
            else:
                self._ranges.append(_Range(call, index, query, max(ANSWER_BYTES // ranges, LEAST_BYTES)))

    def step(self) -> None:
        """Read about one chunk of the next range, or of several, if each is of one key and has few rows. Raises the
        error of a store that is corrupt and can be restored, because the actor must end then, whichever query found
        it."""
        if self._corrupt is not None:
            raise self._corrupt
        self._seen.clear()
        rows = 0
        for _ in range(min(len(self._ranges), KEYS_A_STEP)):
            ranging = self._ranges.popleft()
            answer = self._read_chunk(ranging)
            if answer is None or not ranging.query.query.is_of_one_key:
                return
            rows += max(len(answer.rows), answer.size * CHUNK_ROWS // CHUNK_BYTES)
            if rows >= CHUNK_ROWS:
                return

    def _read_chunk(self, ranging: _Range) -> StoreAnswer | None:
        answer = self._refusal(ranging.query)
        if answer is None:
            try:
                answer = ranging.read_chunk(self._asked(ranging.query), self._position(ranging.query))
            except Exception as error:  # the caller gets the error of the store; the loop continues
                answer = self._failed(error)
        if answer is None:
            self._ranges.append(ranging)
        else:
            ranging.call.answered(ranging.index, answer)
        return answer

    def reject(self, error: Exception) -> None:
        """Answer every waiting query with ``error``: the loop has ended."""
        while self._ranges:
            self._ranges.popleft().call.rejected(error)

    def _answer(self, query: StoreQuery) -> StoreAnswer:
        refusal = self._refusal(query)
        if refusal is not None:
            return refusal
        store = self._asked(query).state_manager.store(query.store)
        try:
            rows = tuple(map(_copied, store.answer(query.query, None, 1, query.committed)))
            return StoreAnswer(rows, position=self._position(query))
        except Exception as error:  # see above
            return self._failed(error)

    def _failed(self, error: Exception) -> StoreAnswer:
        if isinstance(error, StateStoreCorruptError) and error.restorable:
            self._corrupt = error
            return StoreAnswer(failure=QueryFailure.NOT_ACTIVE, detail=str(error))
        return _failed(error)

    def _position(self, query: StoreQuery) -> Position:
        """Returns the position of the store, which is the same for all look-ups of a call."""
        which = query.task_id, query.store, query.committed
        seen = self._seen.get(which)
        if seen is None:
            seen = self._seen[which] = self._asked(query).position_of(query.store, query.committed)
        return seen

    def _found(self, query: StoreQuery) -> Answering | None:
        task = query.task_id
        standby = self._standbys.get(task) if query.stale else None
        return self._tasks.get(task) or standby or self._globals.answering.get(task)

    def _asked(self, query: StoreQuery) -> Answering:
        hosted = self._found(query)
        assert hosted is not None  # else it was refused
        return hosted

    def _refusal(self, query: StoreQuery) -> StoreAnswer | None:
        hosted = self._found(query)
        if hosted is None:
            return StoreAnswer(failure=QueryFailure.NOT_PRESENT, detail=f"task {query.task_id} is not on this actor")
        if query.store not in hosted.state_manager.store_names:
            known = ", ".join(hosted.state_manager.store_names) or "none"
            detail = f"task {query.task_id} has no store {query.store!r}; it has: {known}"
            return StoreAnswer(failure=QueryFailure.DOES_NOT_EXIST, detail=detail)
        if hosted.state is not TaskState.RUNNING and not query.stale:
            return StoreAnswer(failure=QueryFailure.NOT_ACTIVE, detail=f"task {query.task_id} is {hosted.state.value}")
        return None if query.bound is None else self._not_up_to(query.bound, query, hosted)

    def _not_up_to(self, bound: Position, query: StoreQuery, hosted: Answering) -> StoreAnswer | None:
        topics = hosted.topics_of(query.store)
        if foreign := sorted(bound.get_topics().difference(topics)):
            detail = f"store {query.store!r} is kept from {', '.join(sorted(topics))}, not from {', '.join(foreign)}"
            return StoreAnswer(failure=QueryFailure.UNKNOWN_TOPIC, detail=detail)
        seen = self._position(query)
        if not hosted.lacks(query.store, bound, seen):
            return None
        detail = f"store {query.store!r} of task {query.task_id} has not reached the demanded position"
        return StoreAnswer(failure=QueryFailure.NOT_UP_TO_BOUND, detail=detail, position=seen)


class _Call:
    """The answers of one call that are known so far."""

    def __init__(self, done: Future[list[StoreAnswer]], count: int) -> None:
        self._done = done
        self._answers: list[StoreAnswer] = [StoreAnswer()] * count
        self._open = count
        if not count:
            done.set_result([])

    def answered(self, index: int, answer: StoreAnswer) -> None:
        self._answers[index] = answer
        self._open -= 1
        if not self._open:
            self._done.set_result(self._answers)

    def rejected(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)


@dataclass
class _Range:
    """One unfinished range. Between two chunks the store may change, as between two pages."""

    call: _Call
    index: int
    query: StoreQuery
    most_bytes: int
    rows: list[QueryRow] = field(default_factory=list)
    size: int = 0
    chunks: int = 0
    reached: bytes | None = None
    position: Position | None = None

    def read_chunk(self, hosted: Answering, position: Position) -> StoreAnswer | None:
        """Read one chunk. Returns the answer when it is complete, else None. ``position``: that of the store now."""
        if self.position is None:
            self.position, self.reached = position, self.query.after
        query, rows = self.query, self.rows
        most = min(CHUNK_ROWS, query.limit - len(rows))
        before, chunk_bytes, serialize = len(rows), 0, hosted.serializers[query.store]
        for row in hosted.state_manager.store(query.store).answer(query.query, self.reached, most, query.committed):
            self.reached = row.key
            if row.value is PASSED:
                break
            rows.append(_copied(row))
            chunk_bytes += len(row.key) + _size(row.value, serialize)
            if chunk_bytes >= CHUNK_BYTES or self.size + chunk_bytes >= self.most_bytes:
                break
        else:
            if len(rows) - before < most or len(rows) >= query.limit:
                return StoreAnswer(tuple(rows), size=self.size + chunk_bytes, position=self.position)
        self.size += chunk_bytes
        self.chunks += 1
        if self.size >= self.most_bytes or self.chunks >= MOST_CHUNKS:
            return StoreAnswer(tuple(rows), size=self.size, more=True, reached=self.reached, position=self.position)
        return None


def _failed(error: Exception) -> StoreAnswer:
    if isinstance(error, UnknownQueryError):
        detail, answered = str(error), error.answered
        return StoreAnswer(failure=QueryFailure.UNKNOWN_QUERY_TYPE, detail=detail, answered=answered)
    if isinstance(error, RetriableError):
        return StoreAnswer(failure=QueryFailure.BUSY, detail=str(error))
    return StoreAnswer(failure=QueryFailure.STORE_EXCEPTION, detail=f"{type(error).__name__}: {error}")


def _copied(row: QueryRow) -> QueryRow:
    # The answer is pickled in another thread while this one continues to process. An aggregate that a user function
    # changes in place must not change before that.
    return row if type(row.value) in UNCHANGEABLE else row._replace(value=copy.deepcopy(row.value))


def _size(value: Any, store_serialize: Serialize) -> int:
    """Returns about how many bytes ``value`` takes in an answer."""
    if isinstance(value, str | bytes):
        return len(value)
    if type(value) in UNCHANGEABLE:
        return 8
    try:
        return len(store_serialize(value))
    except Exception:  # the commit will report the error; here only the size is needed
        return sys.getsizeof(value)
