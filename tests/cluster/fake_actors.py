"""Stand-ins for the actors that the read side asks: no Ray runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from ray import cloudpickle
from ray.exceptions import ActorDiedError, RayTaskError

from penstock.actors.store_queries import QueryFailure, StoreAnswer, StoreQuery
from penstock.cluster.application_metadata import ApplicationMetadata, StoreMetadata
from penstock.cluster.queries.key_serdes import pickled_key_serdes
from penstock.cluster.queries.queries import StateQueries
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.errors import (
    ApplicationStateError,
)
from penstock.common.ids import TaskId
from penstock.common.murmur2 import partition_for
from penstock.common.partitioners import Partitioner
from penstock.common.serdes import Serde, Serdes
from penstock.state.entries import PLAIN
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.state.queries import CountQuery, KeyQuery, KeysQuery, QueryRow, RangeQuery

PARTITIONS = 3
STORE = TimestampedKeyValueStoreBuilder("counts", Serdes.string(), Serdes.long())
WORDS = [f"word-{number:02}" for number in range(25)]


class Method:
    """Looks like a method of a Ray actor."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def remote(self, *arguments: Any) -> Method:
        self._arguments = arguments
        return self

    def future(self) -> Future[Any]:
        result: Future[Any] = Future()
        try:
            answer = self._function(*self._arguments)
            if isinstance(answer, Future):
                return answer
        except Exception as error:
            result.set_exception(error)
        else:
            # Not at once: questions in between have to wait.
            asyncio.get_running_loop().call_later(0.01, result.set_result, answer)
        return result


class FakeActor:
    def __init__(self, *tasks: TaskId) -> None:
        self.tasks = set(tasks)
        self.calls: list[Sequence[StoreQuery]] = []
        self.failure: QueryFailure | None = None
        self.answered: tuple[str, ...] = ()
        self.dead = False
        self.ended = False
        self.lost: Exception | None = None
        self.held: list[Future[list[StoreAnswer]]] | None = None
        self.keys: list[bytes] = [word.encode() for word in WORDS]
        self.cut_at = 10**9
        self.has_every_key = False
        self.place: Callable[[bytes, int], int] = partition_for

    @property
    def query(self) -> Method:
        return Method(self._query if self.held is None else self._hold)

    def _hold(self, queries: Sequence[StoreQuery]) -> Future[list[StoreAnswer]]:
        assert self.held is not None
        self.calls.append(queries)
        self.held.append(Future())
        return self.held[-1]

    def _query(self, queries: Sequence[StoreQuery]) -> list[StoreAnswer]:
        if self.lost is not None:
            raise self.lost
        if self.dead:
            raise ActorDiedError
        if self.ended:
            cause = ApplicationStateError("actor has ended: it was stopped")
            error: Exception = RayTaskError("query", "", cause)  # type: ignore[no-untyped-call]  # untyped in Ray
            raise error
        self.calls.append(queries)
        return [self._answer(query) for query in queries]

    def _answer(self, query: StoreQuery) -> StoreAnswer:
        if query.task_id not in self.tasks:
            return StoreAnswer(failure=QueryFailure.NOT_PRESENT)
        if self.failure is not None and not (query.stale and self.failure is QueryFailure.NOT_ACTIVE):
            return StoreAnswer(failure=self.failure, detail="no good", answered=self.answered)
        mine = sorted(
            key for key in self.keys if self.has_every_key or self.place(key, PARTITIONS) == query.task_id.partition
        )
        asked = query.query
        if isinstance(asked, CountQuery):
            return StoreAnswer(rows=(QueryRow(b"", len(mine), None),))
        if isinstance(asked, KeyQuery):
            return StoreAnswer(rows=tuple(QueryRow(key, len(key), 7) for key in mine if key == asked.key))
        if isinstance(asked, KeysQuery):
            wanted = [key for key in mine if key in asked.keys]
        else:
            assert isinstance(asked, RangeQuery)
            low, high = asked.from_key or b"", asked.to_key or b"\xff"
            wanted = [key for key in mine if low <= key <= high]
        behind = [key for key in wanted if query.after is None or key > query.after]
        found = tuple(QueryRow(key, len(key), 7) for key in behind)[: query.limit]
        rows = found[: self.cut_at]
        more, size = len(rows) < len(found), sum(len(row.key) for row in rows)
        return StoreAnswer(rows, more=more, reached=rows[-1].key if more else None, size=size)


def pickled(serde: Serde[Any] | None, produced: Serde[Any] | None = None) -> bytes:
    """Returns a coordinator's answer: a store's key serde, and that of its source topic (None: the same), pickled."""
    data: bytes = cloudpickle.dumps((serde, produced or serde, PLAIN))  # type: ignore[no-untyped-call]  # untyped in Ray
    return data


class FakeCoordinator:
    def __init__(self) -> None:
        self.tasks = [TaskId(1, partition) for partition in range(PARTITIONS)]
        self.actors = {"a": FakeActor(*self.tasks[:2]), "b": FakeActor(*self.tasks[2:])}
        self.placement = {self.tasks[0]: "a", self.tasks[1]: "a", self.tasks[2]: "b"}
        self.standbys: dict[TaskId, tuple[str, ...]] = {}
        self.error: str | None = None
        self.asked = 0
        self.state = ApplicationState.RUNNING
        self.gone = False
        self.certain = True
        self.partitioner = Partitioner.MURMUR2
        self.pickled_serdes: dict[str, bytes] = {"counts": pickled(STORE.key_serde)}

    @property
    def metadata(self) -> Method:
        return Method(self._metadata)

    def _metadata(self) -> ApplicationMetadata:
        self.asked += 1
        if self.state is ApplicationState.CREATED:
            return ApplicationMetadata("app", 0, {}, {}, {})
        where = "counts", STORE.kind, 1, PARTITIONS, "app-counts-changelog", "in"
        stores = {"counts": StoreMetadata(*where, certain=self.certain, partitioner=self.partitioner)}
        return ApplicationMetadata("app", 1, stores, dict(self.placement), dict(self.actors), self.standbys)

    @property
    def ask_program(self) -> Method:
        """Knows the key serdes of stores that are made from topic ``in``."""

        def answer(question: Any) -> bytes:
            assert question.func is pickled_key_serdes
            return self.pickled_serdes[question.keywords["store"]] if question.keywords["source_topic"] == "in" else b""

        return Method(answer)

    @property
    def status(self) -> Method:
        return Method(self._status)

    def _status(self) -> ApplicationStatus:
        if self.gone:
            raise ActorDiedError
        return ApplicationStatus("app", self.state, 1, (), {}, error=self.error)


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> FakeCoordinator:
    fake = FakeCoordinator()
    monkeypatch.setattr("ray.get_actor", lambda *_: fake)
    return fake


def ask(question: Callable[[StateQueries], Any]) -> Any:
    async def run() -> Any:
        return await question(StateQueries("app"))

    return asyncio.run(run())


async def all_pages(queries: StateQueries, limit: int, from_key: str | None = None) -> list[Any]:
    """Returns the keys of a range, read page by page. Asserts that no page is empty, or too large."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = await queries.page("counts", RangeQuery(from_key, None), limit, cursor)
        assert 0 < len(page.entries) <= limit
        found += [entry.key for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            return found
