"""The read side over actor calls: routes each question to the task that holds the answer."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from ray.exceptions import RayError, RayTaskError
from typing_extensions import override

from penstock.actors.flame import Flame, FlameRefused
from penstock.actors.store_queries import QueryFailure, StoreAnswer, StoreQuery
from penstock.cluster.application_metadata import ApplicationMetadata, StoreMetadata
from penstock.cluster.queries.actor_calls import ActorCalls, caller
from penstock.cluster.queries.coordinator_answers import CoordinatorAnswers
from penstock.cluster.queries.coordinator_calls import CoordinatorCalls
from penstock.cluster.queries.flames import flame_of
from penstock.cluster.queries.key_search import row_of_key, rows_of_keys
from penstock.cluster.queries.key_serdes import KeySerdes, PlacedKey, key_bytes, pickled_key_serdes, unpickled
from penstock.cluster.queries.letter_queries import LetterQueries
from penstock.cluster.queries.one_at_a_time import OneAtATime
from penstock.cluster.queries.operations import Operations
from penstock.cluster.queries.range_pages import PIECE_ROWS, TaskRange, first_rows
from penstock.cluster.queries.record_queries import RecordQueries
from penstock.cluster.queries.stale_answers import Ask, first_answer
from penstock.cluster.queries.store_metadata import KeyQueryMetadata, StreamsMetadata, actors_with, place_of
from penstock.cluster.read_side import (
    LONGEST_WAIT_S,
    Reading,
    ReadSide,
    StoreEntries,
    state_error,
    unknown_store,
)
from penstock.cluster.status import ApplicationState
from penstock.common.errors import (
    ApplicationStateError,
    ConfigError,
    NotUpToBoundError,
    PositionError,
    RetriableError,
    StateStoreError,
    TaskNotReadyError,
    UnknownQueryError,
    UnknownStateStoreError,
)
from penstock.common.ids import TaskId
from penstock.common.log import logger
from penstock.common.may_wait import in_event_loop
from penstock.common.serdes import Serde, bound
from penstock.state.entries import EntryForm, StoreEntry
from penstock.state.queries import CountQuery, KeysQuery, Query, QueryRow, RowsQuery

T = TypeVar("T")
_OLD_S = 10.0  # seconds for which the last known actor of a task is asked
_LOOK_AGAIN_S, _LOOK_AGAIN_AT_MOST_S = 0.01, 0.2  # pauses between questions if a store has reached a position
_MOST_WAITING = 1000  # questions of one reader that wait for that; others are refused at once


class StateQueries(CoordinatorAnswers, ReadSide):
    """:class:`~penstock.cluster.read_side.ReadSide` of one application. Belongs to one event loop."""

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id
        self._coordinator = CoordinatorCalls(application_id, lambda: self._key_serdes.clear())
        self._key_serdes: dict[tuple[str, str], KeySerdes] = {}
        self._metadata: ApplicationMetadata | None = None
        self._fetched_at = 0.0
        self._generation = 1
        self._refreshing: asyncio.Task[ApplicationMetadata] | None = None
        self._calls: dict[tuple[str, bool], ActorCalls] = {}
        self._waiting = 0
        self._log = logger(__name__)
        one = OneAtATime()
        self._records = RecordQueries(application_id, self._coordinator, self._locate, one)
        self._letters = LetterQueries(application_id, self._coordinator, one)
        self._operations = Operations(self._coordinator)

    @property
    @override
    def application_id(self) -> str:
        return self._application_id

    @property
    @override
    def records(self) -> RecordQueries:
        return self._records

    @property
    @override
    def letters(self) -> LetterQueries:
        return self._letters

    @property
    @override
    def operations(self) -> Operations:
        return self._operations

    @override
    async def flame(self, actor_id: str, seconds: float) -> Flame | FlameRefused | None:
        return await flame_of((await self._refresh()).actors, actor_id, seconds)

    @override
    async def stores(self) -> Mapping[str, StoreMetadata]:
        metadata = self._metadata or await self._refresh()
        if asyncio.get_running_loop().time() - self._fetched_at > _OLD_S:
            # Otherwise nothing would show that a topic has got partitions, and that keys are elsewhere since.
            self._refresh_behind()
        return metadata.stores

    @override
    async def key_serde(self, store: str) -> Serde[Any]:
        return (await self._key_serdes_of(store)).stored

    async def _key_serdes_of(self, store: str) -> KeySerdes:
        where = await self.store(store)
        which = store, where.source_topic  # another one may have most partitions one day
        if which not in self._key_serdes:
            question = partial(pickled_key_serdes, store=store, source_topic=where.source_topic)
            serde, produced, entries = unpickled(store, await self._coordinator.ask_program(question))
            if serde is None:
                raise ConfigError(f"store {store!r} has no key serde, and default.key.serde is not set")
            self._key_serdes[which] = KeySerdes(
                bound(serde, where.serde_topic, "key"),
                bound(produced or serde, where.source_topic, "key"),
                bound(serde, where.source_topic, "key"),
                entries,
            )
        return self._key_serdes[which]

    @override
    async def find_row(self, store: str, query: Query, reading: Reading | None = None) -> StoreEntry | None:
        where, serdes, reading = await self.store(store), await self._key_serdes_of(store), reading or Reading()
        home = (await serdes.find_home(where, query.about)).within(_wanted(where, reading))
        asked = query.with_keys(lambda _: home.data)

        async def ask(task: TaskId) -> Sequence[QueryRow]:
            return (await self._ask(StoreQuery(task, store, asked), reading)).rows

        row = await row_of_key(home, ask)
        return None if row is None else serdes.entries.entry(query.about, row)

    @override
    async def get_many(
        self, store: str, keys: Sequence[Any], reading: Reading | None = None
    ) -> list[StoreEntry | None]:
        where, serdes, reading = await self.store(store), await self._key_serdes_of(store), reading or Reading()
        wanted = _wanted(where, reading)
        homes = await in_event_loop(lambda: [serdes.home_of(where, key).within(wanted) for key in keys])

        async def ask(task: TaskId, piece: tuple[bytes, ...]) -> Sequence[QueryRow]:
            return await self._ask_for_all_rows(StoreQuery(task, store, KeysQuery(piece), limit=len(piece)), reading)

        found = await rows_of_keys(homes, ask)
        rows = (found.get(home.data) for home in homes)
        return [row and StoreEntry(key, row.value, row.timestamp) for key, row in zip(keys, rows, strict=True)]

    async def _ask_for_all_rows(self, query: StoreQuery, reading: Reading) -> list[QueryRow]:
        """All rows, however large they are."""
        rows: list[QueryRow] = []
        more = True
        while more:
            answer = await self._ask(query, reading)
            rows += answer.rows
            more = answer.more
            query = replace(query, after=answer.reached)
        return rows

    @override
    async def page(
        self, store: str, query: RowsQuery, limit: int, cursor: str | None = None, reading: Reading | None = None
    ) -> StoreEntries:
        """A page may be shorter than ``limit`` if its rows are large: then it has a cursor."""
        where, serdes, reading = await self.store(store), await self._key_serdes_of(store), reading or Reading()
        asked = StoreQuery(
            TaskId(where.subtopology, 0),
            store,
            await in_event_loop(lambda: query.with_keys(partial(key_bytes, store, serdes.stored))),
            after=None if cursor is None else _decoded(cursor, serdes.entries),
            limit=min(limit + 1, PIECE_ROWS),
        )
        tasks: Sequence[TaskId] = [TaskId(where.subtopology, partition) for partition in _wanted(where, reading)]
        if query.is_of_one_key:  # several may have rows of the key
            tasks = (await serdes.find_home(where, query.about)).within(_wanted(where, reading)).tasks
        parts = [TaskRange(partial(self._ask, reading=reading), replace(asked, task_id=task)) for task in tasks]
        rows, more = await first_rows(parts, limit, query.descending)
        entries = await in_event_loop(lambda: tuple(self._entry(store, serdes, row) for row in rows))
        return StoreEntries(entries, _encoded(rows[-1].key) if more else None)

    def _entry(self, store: str, serdes: KeySerdes, row: QueryRow) -> StoreEntry:
        key, serde = serdes.entries.key(row.key), serdes.stored
        try:
            return serdes.entries.entry(serde.deserialize(key), row)
        except RetriableError:
            raise
        except Exception as error:  # a serde may raise anything: see Serde. One such key must not hide all the others
            self._log.warning("cannot deserialize a key", store=store, key=key, serde=serde.name, error=repr(error))
            return serdes.entries.entry(key, row)

    @override
    async def approximate_num_entries(self, store: str, reading: Reading | None = None) -> int:
        where, asked = await self.store(store), reading or Reading()
        queries = [
            StoreQuery(TaskId(where.subtopology, partition), store, CountQuery()) for partition in _wanted(where, asked)
        ]
        answers = await asyncio.gather(*(self._ask(query, asked) for query in queries))
        return sum(row.value for answer in answers for row in answer.rows)

    async def _locate(self, store: str, key: Any) -> PlacedKey:
        return await (await self._key_serdes_of(store)).locate(await self.store(store), key)

    async def key_metadata(self, store: str, key: Any) -> KeyQueryMetadata:
        """The place of a key. Raises what :meth:`find_row` does."""
        where, serdes = await self.store(store), await self._key_serdes_of(store)
        return place_of(self._metadata or await self._refresh(), await serdes.find_home(where, key))

    async def actors_with(self, store: str) -> tuple[StreamsMetadata, ...]:
        """Every stream actor that has a part of the store, or a standby of one."""
        metadata = await self._refresh()
        return actors_with(metadata, await self.store(store))

    # ---- routing ----

    async def _ask(self, query: StoreQuery, reading: Reading) -> StoreAnswer:
        """Returns the answer that ``reading`` demands; waits for the store to reach the reading's bound."""
        if reading.committed or reading.bound is not None:
            query = replace(query, committed=reading.committed, bound=reading.bound)
        answer = await self._answer(query, reading)
        if answer.failure is QueryFailure.NOT_UP_TO_BOUND:
            answer = await self._wait(query, reading, answer)
        reading.answered_at(answer.position)
        return answer

    async def _wait(self, query: StoreQuery, reading: Reading, answer: StoreAnswer) -> StoreAnswer:
        """Ask again and again until the store has reached the bound."""
        now, pause_s = asyncio.get_running_loop().time, _LOOK_AGAIN_S
        if reading.waits_until is None:
            reading.waits_until = now() + min(reading.wait_s, LONGEST_WAIT_S)
        self._waiting += 1
        try:
            while answer.failure is QueryFailure.NOT_UP_TO_BOUND:
                left_s = reading.waits_until - now()
                if left_s <= 0 or self._waiting > _MOST_WAITING:
                    raise NotUpToBoundError(f"{answer.detail}, within {reading.wait_s:g} s", answer.position)
                await asyncio.sleep(min(pause_s, left_s))
                pause_s = min(pause_s * 1.5, _LOOK_AGAIN_AT_MOST_S)
                answer = await self._answer(query, reading)
            return answer
        finally:
            self._waiting -= 1

    async def _answer(self, query: StoreQuery, reading: Reading) -> StoreAnswer:
        """Returns the answer of the active task, or of a standby if ``reading`` permits it; raises a failure."""
        asking = self._active_answer(query)
        if reading.stale and query.bound is None:
            answer, of_standby = await first_answer(asking, partial(self._standbys_to_ask, query))
            reading.was_stale |= of_standby
        else:
            answer = await asking
        if answer is None or answer.failure is QueryFailure.NOT_PRESENT:
            raise await self._not_there(query.task_id)
        if answer.failure is QueryFailure.NOT_ACTIVE:
            raise TaskNotReadyError(f"task {query.task_id} of {self._application_id!r} restores its state")
        if answer.failure is QueryFailure.BUSY:
            raise TaskNotReadyError(f"task {query.task_id} of {self._application_id!r} is busy: {answer.detail}")
        if answer.failure is QueryFailure.DOES_NOT_EXIST:
            raise await self._unknown(query.store)
        if answer.failure is QueryFailure.UNKNOWN_QUERY_TYPE:
            kind = f"store {query.store!r} is a {(await self.store(query.store)).kind} store"
            if answer.answered:
                raise UnknownQueryError.of(type(query.query).__name__, f"{kind} and", answer.answered)
            raise UnknownQueryError(f"{kind}: {answer.detail}")
        if answer.failure is QueryFailure.UNKNOWN_TOPIC:
            raise PositionError(answer.detail)
        if answer.failure is not None and answer.failure is not QueryFailure.NOT_UP_TO_BOUND:
            raise StateStoreError(f"store {query.store!r} of task {query.task_id}: {answer.detail}")
        return answer

    async def _active_answer(self, query: StoreQuery) -> StoreAnswer | None:
        """Ask the actor that is believed to have the task. If it does not, ask the coordinator, then the actor that it
        names, once."""
        answer = await self._ask_task(self._metadata or await self._refresh(), query)
        if answer is None or answer.failure is QueryFailure.NOT_PRESENT:
            answer = await self._ask_task(await self._refresh(), query)
        return answer

    async def _standbys_to_ask(self, query: StoreQuery) -> list[Ask]:
        """Returns the questions to each standby of the task, and at last to the task itself, which may restore."""
        metadata, asked = self._metadata or await self._refresh(), replace(query, stale=True)
        active = metadata.placement.get(query.task_id)
        names = (*metadata.standbys.get(query.task_id, ()), *([active] if active is not None else ()))
        return [partial(self._ask_at, metadata, asked, name) for name in names]

    async def _not_there(self, task: TaskId) -> Exception:
        """Returns the error that no actor has the task: for a moment, or because none will ever have it again."""
        status = await self.status()
        if not status.state.is_live:
            return state_error(status)
        return TaskNotReadyError(f"task {task} of application {self._application_id!r} moves between actors")

    async def _ask_task(self, metadata: ApplicationMetadata, query: StoreQuery) -> StoreAnswer | None:
        name = metadata.placement.get(query.task_id)
        return None if name is None else await self._ask_at(metadata, query, name)

    async def _ask_at(self, metadata: ApplicationMetadata, query: StoreQuery, name: str) -> StoreAnswer | None:
        """The actor's answer; None when it is not there."""
        if name not in metadata.actors:
            return None
        which = name, query.query.single  # look-ups do not wait for ranges
        calls = self._calls.get(which)
        if calls is None:
            calls = self._calls[which] = ActorCalls(name, caller(metadata.actors[name]))
        try:
            return await calls.ask(query)
        except RayTaskError as error:
            if isinstance(error.cause, ApplicationStateError):
                return None  # the actor's loop has ended: its tasks go elsewhere, or the application ends
            raise StateStoreError(f"store {query.store!r} of task {query.task_id}: {error.cause or error}") from error
        except RayError:
            # Dead, out of memory, out of reach: lost. A new actor has a new name and calls of its own.
            self._calls.pop(which, None)
            return None

    @override
    async def store(self, name: str) -> StoreMetadata:
        stores = await self.stores()
        if name not in stores:
            stores = (await self._refresh()).stores
        if name not in stores:
            unknown = await self._unknown(name)
            # A coordinator that begins may have learnt of the store since it was asked.
            stores = {} if self._metadata is None else self._metadata.stores
            if name not in stores:
                raise unknown
        return stores[name]

    async def _unknown(self, name: str) -> Exception:
        status, metadata = await self.status(), await self._refresh()
        # A coordinator that begins, perhaps after a restart, has given out no epoch and knows no store.
        if status.state is ApplicationState.CREATED or not metadata.epoch:
            return TaskNotReadyError(f"application {self._application_id!r} is starting")
        return unknown_store(self._application_id, name, metadata.stores)

    # ---- the coordinator ----

    async def _refresh(self) -> ApplicationMetadata:
        """Ask the coordinator again; all calls that need it at the same time share one question."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._fetch_metadata())
        return await asyncio.shield(self._refreshing)

    def _refresh_behind(self) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._fetch_metadata())
            self._refreshing.add_done_callback(lambda it: it.cancelled() or it.exception())  # asked again soon enough

    async def _fetch_metadata(self) -> ApplicationMetadata:
        metadata: ApplicationMetadata = await self._coordinator.ask("metadata")
        self._fetched_at = asyncio.get_running_loop().time()
        if metadata.generation != self._generation:
            self._generation = metadata.generation
            self._key_serdes.clear()  # the bytes of keys are the same, but types in the program may be others
        self._calls = {which: calls for which, calls in self._calls.items() if which[0] in metadata.actors}
        # One that is still starting knows no stores: nothing to remember.
        self._metadata = metadata if metadata.stores else None
        return metadata


def _wanted(where: StoreMetadata, reading: Reading) -> Sequence[int]:
    """The partitions that may answer. Raises UnknownStateStoreError for one that the store does not have."""
    if reading.partitions is None:
        return range(where.partitions)
    if strange := sorted(reading.partitions - set(range(where.partitions))):
        raise UnknownStateStoreError(
            f"store {where.name!r} has no partition {strange[0]}: its partitions are 0 to {where.partitions - 1}"
        )
    return sorted(reading.partitions)


def _encoded(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode()


def _decoded(cursor: str, form: EntryForm) -> bytes:
    try:
        key = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = None
    if key is None or not form.is_row_key(key):
        raise ValueError(f"not a cursor of an earlier page: {cursor[:200]!r}")
    return key
