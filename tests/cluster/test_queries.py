"""The read side: routing, batching, refreshing, paging; actors are stand-ins, no Ray runs."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle
from ray.exceptions import ActorDiedError, ActorUnavailableError, OutOfMemoryError, RayTaskError

from penstock.actors.messages import (
    ApplicationMetadata,
    ApplicationState,
    ApplicationStatus,
    QueryFailure,
    StoreAnswer,
    StoreMetadata,
    StoreQuery,
)
from penstock.cluster.queries import StateQueries
from penstock.common.errors import (
    ApplicationStateError,
    ConfigError,
    SerializationError,
    StateStoreError,
    TaskNotReadyError,
    UnknownStateStoreError,
)
from penstock.common.ids import TaskId
from penstock.common.murmur2 import partition_for
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
            # Not at once: what is asked in between has to wait.
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
        if self.failure is not None:
            return StoreAnswer(failure=self.failure, detail="no good", answered=self.answered)
        mine = sorted(
            key for key in self.keys if self.has_every_key or partition_for(key, PARTITIONS) == query.task_id.partition
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
    """What a coordinator answers: a store's key serde, and that of its source topic, the same one if None is given."""
    data: bytes = cloudpickle.dumps((serde, produced or serde, PLAIN))  # type: ignore[no-untyped-call]  # untyped in Ray
    return data


class FakeCoordinator:
    def __init__(self) -> None:
        self.tasks = [TaskId(1, partition) for partition in range(PARTITIONS)]
        self.actors = {"a": FakeActor(*self.tasks[:2]), "b": FakeActor(*self.tasks[2:])}
        self.placement = {self.tasks[0]: "a", self.tasks[1]: "a", self.tasks[2]: "b"}
        self.error: str | None = None
        self.asked = 0
        self.state = ApplicationState.RUNNING
        self.gone = False
        self.pickled_serdes: dict[str, bytes] = {"counts": pickled(STORE.key_serde)}

    @property
    def metadata(self) -> Method:
        return Method(self._metadata)

    def _metadata(self) -> ApplicationMetadata:
        self.asked += 1
        if self.state is ApplicationState.CREATED:
            return ApplicationMetadata("app", 0, {}, {}, {})
        stores = {"counts": StoreMetadata("counts", STORE.kind, 1, PARTITIONS, "app-counts-changelog", "in")}
        return ApplicationMetadata("app", 1, stores, dict(self.placement), dict(self.actors))

    @property
    def key_serdes(self) -> Method:
        return Method(lambda store, topic: self.pickled_serdes[store] if topic == "in" else b"")

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


def test_every_key_is_found_where_murmur2_puts_it(coordinator: FakeCoordinator) -> None:
    async def all_words(queries: StateQueries) -> list[Any]:
        return [await queries.one("counts", KeyQuery(word)) for word in WORDS]

    entries = ask(all_words)
    assert [(entry.key, entry.value, entry.timestamp) for entry in entries] == [(word, 7, 7) for word in WORDS]
    assert ask(lambda queries: queries.one("counts", KeyQuery("absent"))) is None


def test_many_keys_are_looked_up_by_one_call_to_each_actor(coordinator: FakeCoordinator) -> None:
    asked = ["absent", *reversed(WORDS), WORDS[3], "nor this"]

    async def all_at_once(queries: StateQueries) -> list[Any]:
        return await queries.get_many("counts", asked)

    entries = ask(all_at_once)
    assert [entry and (entry.key, entry.value, entry.timestamp) for entry in entries] == [
        (word, 7, 7) if word in WORDS else None for word in asked
    ]
    for actor in coordinator.actors.values():
        assert len(actor.calls) == 1


def test_many_large_rows_are_asked_for_until_all_are_there(coordinator: FakeCoordinator) -> None:
    for actor in coordinator.actors.values():
        actor.cut_at = 2
    entries = ask(lambda queries: queries.get_many("counts", WORDS))
    assert [entry.key for entry in entries] == WORDS


def test_more_keys_than_a_task_reads_at_once_are_cut_into_several_questions(coordinator: FakeCoordinator) -> None:
    keys = [f"{number:05}" for number in range(4000)]
    for actor in coordinator.actors.values():
        actor.keys = [key.encode() for key in keys]
    assert [entry.key for entry in ask(lambda queries: queries.get_many("counts", keys))] == keys
    asked = [query.query for actor in coordinator.actors.values() for call in actor.calls for query in call]
    assert max(len(query.keys) for query in asked if isinstance(query, KeysQuery)) == 500


def test_no_keys_are_no_question(coordinator: FakeCoordinator) -> None:
    assert ask(lambda queries: queries.get_many("counts", [])) == []


def test_lookups_that_wait_for_the_same_actor_travel_in_one_call(coordinator: FakeCoordinator) -> None:
    async def together(queries: StateQueries) -> None:
        await queries.one("counts", KeyQuery(WORDS[0]))
        for actor in coordinator.actors.values():
            actor.calls.clear()
        await asyncio.gather(*(queries.one("counts", KeyQuery(word)) for word in WORDS * 20))

    ask(together)
    for actor in coordinator.actors.values():
        # The first goes alone or with those of the same moment, all the others go with the second.
        assert len(actor.calls) <= 2
    assert sum(len(call) for actor in coordinator.actors.values() for call in actor.calls) == len(WORDS) * 20


def test_a_moved_task_is_found_again_with_one_question_to_the_coordinator(coordinator: FakeCoordinator) -> None:
    async def move_between(queries: StateQueries) -> None:
        await queries.approximate_num_entries("counts")
        coordinator.actors["c"] = FakeActor(*coordinator.tasks)
        coordinator.placement = dict.fromkeys(coordinator.tasks, "c")
        coordinator.actors["a"].tasks.clear()
        coordinator.actors["b"].dead = True
        before = coordinator.asked
        assert await queries.approximate_num_entries("counts") == len(WORDS)
        assert coordinator.asked <= before + 2
        assert (await queries.one("counts", KeyQuery(WORDS[3]))) is not None

    ask(move_between)


def test_a_task_that_is_nowhere_or_restores_is_not_ready(coordinator: FakeCoordinator) -> None:
    coordinator.actors["a"].failure = QueryFailure.NOT_ACTIVE
    with pytest.raises(TaskNotReadyError, match="restores its state"):
        ask(lambda queries: queries.approximate_num_entries("counts"))
    coordinator.placement.clear()
    with pytest.raises(TaskNotReadyError, match="moves between actors"):
        ask(lambda queries: queries.one("counts", KeyQuery("x")))


@pytest.mark.parametrize("state", [ApplicationState.PENDING_ERROR, ApplicationState.ERROR])
def test_a_task_that_will_never_be_anywhere_again_is_not_asked_for_again_but_tells_the_cause(
    coordinator: FakeCoordinator, state: ApplicationState
) -> None:
    coordinator.actors["a"].ended = coordinator.actors["b"].dead = True
    coordinator.state, coordinator.error = state, "ProcessingError: division by zero"
    for question in (
        lambda queries: queries.one("counts", KeyQuery("x")),
        lambda queries: queries.page("counts", RangeQuery(None, None), 10),
        lambda queries: queries.approximate_num_entries("counts"),
    ):
        with pytest.raises(ApplicationStateError, match=f"is in state {state.value}: ProcessingError: division by"):
            ask(question)


def test_a_query_while_the_application_stops_says_so(coordinator: FakeCoordinator) -> None:
    coordinator.placement.clear()
    coordinator.state = ApplicationState.PENDING_SHUTDOWN
    with pytest.raises(ApplicationStateError, match="is in state PENDING_SHUTDOWN: it is stopping"):
        ask(lambda queries: queries.one("counts", KeyQuery("x")))


def test_an_actor_whose_work_has_ended_means_asking_again_later_or_elsewhere(coordinator: FakeCoordinator) -> None:
    coordinator.actors["a"].ended = coordinator.actors["b"].ended = True
    with pytest.raises(TaskNotReadyError, match="moves between actors"):
        ask(lambda queries: queries.one("counts", KeyQuery("x")))

    async def move(queries: StateQueries) -> None:
        with pytest.raises(TaskNotReadyError):
            await queries.one("counts", KeyQuery(WORDS[3]))
        coordinator.actors["c"] = FakeActor(*coordinator.tasks)
        coordinator.placement = dict.fromkeys(coordinator.tasks, "c")
        assert (await queries.one("counts", KeyQuery(WORDS[3]))) is not None

    ask(move)


def test_a_store_that_cannot_be_read_says_why(coordinator: FakeCoordinator) -> None:
    coordinator.actors["b"].failure = QueryFailure.STORE_EXCEPTION
    with pytest.raises(StateStoreError, match="no good"):
        ask(lambda queries: queries.approximate_num_entries("counts"))


def test_an_unknown_store_names_the_known_ones_unless_the_application_still_starts(
    coordinator: FakeCoordinator,
) -> None:
    with pytest.raises(UnknownStateStoreError, match="no state store 'count'; its stores: counts"):
        ask(lambda queries: queries.one("count", KeyQuery("x")))
    coordinator.state = ApplicationState.CREATED
    with pytest.raises(TaskNotReadyError, match="is starting"):
        ask(lambda queries: queries.one("counts", KeyQuery("x")))


def test_an_application_that_does_not_run_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr("ray.get_actor", missing)
    with pytest.raises(ApplicationStateError, match="'app' does not run"):
        ask(lambda queries: queries.status())


def test_a_key_that_the_serde_refuses_names_store_and_serde(coordinator: FakeCoordinator) -> None:
    with pytest.raises(
        SerializationError, match=r"store 'counts': key: the serde string cannot write 7 \(int\): a str"
    ):
        ask(lambda queries: queries.one("counts", KeyQuery(7)))


@pytest.mark.parametrize("limit", [1, 4, 5, 24, 25, 100])
def test_pages_of_a_range_give_every_row_once_in_the_order_of_keys(coordinator: FakeCoordinator, limit: int) -> None:
    async def pages(queries: StateQueries) -> list[str]:
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await queries.page("counts", RangeQuery("word-03", None), limit, cursor)
            assert 0 < len(page.entries) <= limit
            found += [entry.key for entry in page.entries]
            cursor = page.cursor
            if cursor is None:
                return found

    assert ask(pages) == WORDS[3:]
    asked = [query for actor in coordinator.actors.values() for call in actor.calls for query in call]
    assert {query.limit for query in asked} == {limit + 1}


def test_a_range_includes_both_ends_and_refuses_a_foreign_cursor(coordinator: FakeCoordinator) -> None:
    page = ask(lambda queries: queries.page("counts", RangeQuery("word-03", "word-05"), 10))
    assert [entry.key for entry in page.entries] == WORDS[3:6]
    with pytest.raises(ValueError, match="not a cursor"):
        ask(lambda queries: queries.page("counts", RangeQuery(None, None), 10, "ü?"))


def test_the_coordinator_is_asked_once_while_nothing_moves(coordinator: FakeCoordinator) -> None:
    async def twice(queries: StateQueries) -> None:
        await queries.one("counts", KeyQuery("a"))
        before = coordinator.asked
        await queries.one("counts", KeyQuery("b"))
        assert coordinator.asked == before

    ask(twice)


@pytest.mark.parametrize(
    "lost",
    [
        OutOfMemoryError("killed by Ray"),  # type: ignore[no-untyped-call]  # untyped in Ray
        ActorUnavailableError("out of reach", b"\0" * 16),
    ],
)
def test_an_actor_that_ray_lost_for_whatever_reason_means_asking_again_later_or_elsewhere(
    coordinator: FakeCoordinator, lost: Exception
) -> None:
    for actor in coordinator.actors.values():
        actor.lost = lost
    with pytest.raises(TaskNotReadyError, match="moves between actors"):
        ask(lambda queries: queries.one("counts", KeyQuery("x")))

    async def replaced(queries: StateQueries) -> None:
        with pytest.raises(TaskNotReadyError):
            await queries.one("counts", KeyQuery(WORDS[3]))
        coordinator.actors["c"] = FakeActor(*coordinator.tasks)
        coordinator.placement = dict.fromkeys(coordinator.tasks, "c")
        assert (await queries.one("counts", KeyQuery(WORDS[3]))) is not None

    ask(replaced)


def test_a_call_that_takes_too_long_is_given_up_but_never_repeated(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.actor_calls.CALL_S", 0.05)
    coordinator.placement = dict.fromkeys(coordinator.tasks, "c")
    coordinator.actors["c"] = slow = FakeActor(*coordinator.tasks)

    async def late(queries: StateQueries) -> None:
        await queries.one("counts", KeyQuery(WORDS[0]))
        slow.calls.clear()
        slow.held = []
        for _ in range(5):
            with pytest.raises(TaskNotReadyError, match="has not answered"):
                await queries.one("counts", KeyQuery(WORDS[1]))
        assert len(slow.calls) == 1, "the actor still works on the first"
        (first,), slow.held = slow.held, None
        first.set_result([StoreAnswer()])
        answered = None
        while answered is None:
            try:
                answered = await queries.one("counts", KeyQuery(WORDS[1]))
            except TaskNotReadyError:
                await asyncio.sleep(0)
        assert answered.value == 7

    ask(late)


def test_so_many_queries_may_wait_for_an_actor_and_no_more(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.actor_calls._MOST_WAITING", 10)

    async def crowd(queries: StateQueries) -> None:
        await queries.one("counts", KeyQuery(WORDS[0]))
        found = await asyncio.gather(
            *(queries.one("counts", KeyQuery(WORDS[0])) for _ in range(100)), return_exceptions=True
        )
        refused = [error for error in found if isinstance(error, TaskNotReadyError)]
        assert len(found) - len(refused) == 10
        assert "has 10 queries waiting: it is busy" in str(refused[0])

    ask(crowd)


def test_a_busy_actor_says_so(coordinator: FakeCoordinator) -> None:
    coordinator.actors["a"].failure = QueryFailure.BUSY
    with pytest.raises(TaskNotReadyError, match="is busy"):
        ask(lambda queries: queries.page("counts", RangeQuery(None, None), 10))


def test_a_range_is_put_together_from_pieces_whatever_their_size(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.queries.PIECE_ROWS", 3)
    for cut_at in (1, 2, 100):
        for actor in coordinator.actors.values():
            actor.cut_at = cut_at
        assert ask(lambda queries: all_pages(queries, 1)) == WORDS
        assert ask(lambda queries: all_pages(queries, 7)) == WORDS
        assert ask(lambda queries: all_pages(queries, 100)) == WORDS


async def all_pages(queries: StateQueries, limit: int) -> list[Any]:
    found: list[Any] = []
    cursor = None
    while True:
        page = await queries.page("counts", RangeQuery(None, None), limit, cursor)
        found += [entry.key for entry in page.entries]
        if page.cursor is None:
            return found
        assert page.entries
        cursor = page.cursor


def test_a_page_ends_early_where_its_rows_are_large(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.range_pages._PAGE_BYTES", 70)  # ten words of seven bytes
    page = ask(lambda queries: queries.page("counts", RangeQuery(None, None), 100))
    assert [entry.key for entry in page.entries] == WORDS[:10]
    assert ask(lambda queries: all_pages(queries, 100)) == WORDS


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_rows_that_two_tasks_have_of_one_key_stand_on_one_page(coordinator: FakeCoordinator, limit: int) -> None:
    for actor in coordinator.actors.values():
        actor.has_every_key = True
    pages: list[list[Any]] = []

    async def read(queries: StateQueries) -> None:
        cursor = None
        while not pages or cursor is not None:
            page = await queries.page("counts", RangeQuery("word-21", None), limit, cursor)
            pages.append([entry.key for entry in page.entries])
            cursor = page.cursor

    ask(read)
    assert [key for page in pages for key in page] == [word for word in WORDS[21:] for _ in range(PARTITIONS)]
    assert all(len(page) >= limit for page in pages[:-1])


def test_a_key_that_cannot_be_read_is_given_as_bytes_and_hides_no_other(coordinator: FakeCoordinator) -> None:
    bad = b"word-03\xff"
    for actor in coordinator.actors.values():
        actor.keys = [*actor.keys, bad]
    expected: list[Any] = [*WORDS[:4], bad, *WORDS[4:]]
    assert ask(lambda queries: all_pages(queries, 100)) == expected
    assert ask(lambda queries: all_pages(queries, 2)) == expected, "and a cursor behind it works"
    with pytest.raises(ValueError, match="not a cursor"):
        ask(lambda queries: queries.page("counts", RangeQuery(None, None), 10, "no cursor!"))


def test_a_key_is_read_where_the_program_cannot_be(coordinator: FakeCoordinator) -> None:
    """The serde alone travels: no code of the user's is needed for a serde that comes with penstock."""
    assert b"test_queries" not in coordinator.pickled_serdes["counts"]
    assert ask(lambda queries: queries.key_serde("counts")) is Serdes.string()


def test_a_key_serde_whose_code_is_not_here_is_said_to_be_so(
    coordinator: FakeCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far_away.py").write_text("def read(data):\n    return data\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("far_away")
    coordinator.pickled_serdes["counts"] = pickled(Serde("far", bytes, module.read))
    monkeypatch.delitem(sys.modules, "far_away")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    with pytest.raises(ConfigError, match=r"store 'counts' cannot be used here.*No module named 'far_away'"):
        ask(lambda queries: queries.one("counts", KeyQuery(b"x")))


class OfItsTopic(Serde[str]):
    """Writes the name of its topic in front of a key."""

    def bind(self, topic: str, part: str) -> Serde[str]:
        start = f"{topic} {part} "
        return Serde(start, lambda text: (start + text).encode(), lambda data: data.decode().removeprefix(start))


def test_a_key_is_looked_up_as_its_store_has_it_in_the_task_that_its_source_topic_says(
    coordinator: FakeCoordinator,
) -> None:
    """As Kafka Streams: producers of the source topic have placed the key by the bytes that it has there."""
    coordinator.pickled_serdes["counts"] = pickled(OfItsTopic("of its topic", str.encode, bytes.decode))
    for word in WORDS:
        ask(lambda queries, word=word: queries.one("counts", KeyQuery(word)))  # type: ignore[misc]  # mypy infers no default
    asked = [query for actor in coordinator.actors.values() for call in actor.calls for query in call]
    assert {(query.query, query.task_id.partition) for query in asked} == {
        (KeyQuery(f"app-counts-changelog key {word}".encode()), partition_for(f"in key {word}".encode(), PARTITIONS))
        for word in WORDS
    }


@pytest.mark.parametrize(
    ("produced", "placed"),
    [
        (Serdes.json(), lambda word: f'"{word}"'.encode()),
        (Serdes.long(), str.encode),  # refuses text: a processor has made the keys of the store
        (None, str.encode),
    ],
)
def test_a_key_is_looked_up_where_the_serde_of_its_source_topic_puts_it(
    coordinator: FakeCoordinator, produced: Serde[Any] | None, placed: Callable[[str], bytes]
) -> None:
    coordinator.pickled_serdes["counts"] = pickled(Serdes.string(), produced)
    for word in WORDS:
        ask(lambda queries, word=word: queries.one("counts", KeyQuery(word)))  # type: ignore[misc]  # mypy infers no default
    asked = [query for actor in coordinator.actors.values() for call in actor.calls for query in call]
    assert {(query.query, query.task_id.partition) for query in asked} == {
        (KeyQuery(word.encode()), partition_for(placed(word), PARTITIONS)) for word in WORDS
    }


def test_the_keys_of_a_range_are_read_as_the_store_has_them(coordinator: FakeCoordinator) -> None:
    coordinator.pickled_serdes["counts"] = pickled(OfItsTopic("of its topic", str.encode, bytes.decode))
    for actor in coordinator.actors.values():
        actor.keys = [f"app-counts-changelog key {word}".encode() for word in WORDS]
    assert ask(lambda queries: all_pages(queries, 3)) == sorted(WORDS)


def test_keys_are_written_as_the_program_of_another_coordinator_has_them(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def redeploy(queries: StateQueries) -> None:
        assert await queries.key_serde("counts") is Serdes.string()
        new = FakeCoordinator()
        new.pickled_serdes["counts"] = pickled(Serdes.long())
        monkeypatch.setattr("ray.get_actor", lambda *_: new)
        coordinator.gone = True
        assert (await queries.status()).state is ApplicationState.RUNNING
        assert await queries.key_serde("counts") is Serdes.long()

    ask(redeploy)


def test_a_store_without_a_key_serde_is_said_to_be_so(coordinator: FakeCoordinator) -> None:
    coordinator.pickled_serdes["counts"] = pickled(None)
    with pytest.raises(ConfigError, match=r"store 'counts' has no key serde, and default\.key\.serde is not set"):
        ask(lambda queries: queries.one("counts", KeyQuery("x")))
