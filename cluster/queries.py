"""The read side over actor calls: routes each question to the task that holds the answer.

Measured need: thousands of single look-ups a second through calls that cost Ray half a millisecond each. So at most one
call is under way per actor, and all questions that come meanwhile travel together in the next.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import heapq
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any, TypeVar

import ray
from ray import cloudpickle
from ray.exceptions import RayActorError, RayTaskError

from penstock.actors.messages import (
    ApplicationMetadata,
    ApplicationState,
    ApplicationStatus,
    QueryFailure,
    QueryKind,
    StoreAnswer,
    StoreMetadata,
    StoreQuery,
)
from penstock.cluster.names import NAMESPACE, coordinator_name
from penstock.cluster.read_side import StoreEntries, StoreEntry
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
from penstock.common.serdes import Serde

T = TypeVar("T")
_CALL_S = 10.0


class StateQueries:
    """:class:`~penstock.cluster.read_side.ReadSide` of one application. Belongs to one event loop."""

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id
        self._coordinator: Any = None
        self._key_serdes: dict[str, Serde[Any] | None] = {}
        self._metadata: ApplicationMetadata | None = None
        self._refreshing: asyncio.Task[ApplicationMetadata] | None = None
        self._lanes: dict[str, _Lane] = {}

    @property
    def application_id(self) -> str:
        """See the contract."""
        return self._application_id

    async def status(self) -> ApplicationStatus:
        """See the contract."""
        status: ApplicationStatus = await self._ask_coordinator("status")
        return status

    async def stores(self) -> Mapping[str, StoreMetadata]:
        """See the contract."""
        metadata = self._metadata or await self._refresh()
        return metadata.stores

    async def key_serde(self, store: str) -> Serde[Any]:
        """See the contract."""
        await self._store(store)
        if store not in self._key_serdes:
            self._key_serdes[store] = _unpickled(store, await self._ask_coordinator("key_serde", store))
        serde = self._key_serdes[store]
        if serde is None:
            raise ConfigError(f"store {store!r} has no key serde, and default.key.serde is not set")
        return serde

    async def get(self, store: str, key: Any, committed: bool = False) -> StoreEntry | None:
        """See the contract."""
        data = await self._key_bytes(store, key)
        where = await self._store(store)
        task = TaskId(where.subtopology, partition_for(data, where.partitions))
        answer = await self._ask(StoreQuery(task, store, QueryKind.KEY, key=data, committed=committed))
        return StoreEntry(key, answer.rows[0][1], answer.rows[0][2]) if answer.rows else None

    async def range(
        self,
        store: str,
        from_key: Any | None,
        to_key: Any | None,
        limit: int,
        cursor: str | None = None,
        committed: bool = False,
    ) -> StoreEntries:
        """See the contract. Every task gives at most one row more than the page has."""
        serde = await self.key_serde(store)
        lower = None if from_key is None else await self._key_bytes(store, from_key)
        upper = None if to_key is None else await self._key_bytes(store, to_key)
        if cursor is not None:
            # The smallest key behind the last one given.
            lower = _decoded(cursor) + b"\x00"
        where = await self._store(store)
        query = StoreQuery(
            TaskId(where.subtopology, 0), store, QueryKind.RANGE,
            from_key=lower, to_key=upper, limit=limit + 1, committed=committed,
        )  # fmt: skip
        answers = await self._ask_all(query, where)
        merged = list(heapq.merge(*(answer.rows for answer in answers), key=itemgetter(0)))
        page = merged[:limit]
        entries = tuple(StoreEntry(serde.deserialize(key), value, timestamp) for key, value, timestamp in page)
        return StoreEntries(entries, _encoded(page[-1][0]) if len(merged) > limit else None)

    async def approximate_num_entries(self, store: str, committed: bool = False) -> int:
        """See the contract."""
        where = await self._store(store)
        query = StoreQuery(TaskId(where.subtopology, 0), store, QueryKind.COUNT, committed=committed)
        return sum(answer.count for answer in await self._ask_all(query, where))

    # ---- routing ----

    async def _ask_all(self, query: StoreQuery, where: StoreMetadata) -> list[StoreAnswer]:
        tasks = [TaskId(where.subtopology, partition) for partition in range(where.partitions)]
        return await asyncio.gather(*(self._ask(replace(query, task_id=task)) for task in tasks))

    async def _ask(self, query: StoreQuery) -> StoreAnswer:
        """Ask where the task is thought to be; if it is not there, once more where it is said to be now."""
        metadata = self._metadata or await self._refresh()
        answer = await self._ask_at(metadata, query)
        if answer is None or answer.failure is QueryFailure.NOT_PRESENT:
            answer = await self._ask_at(await self._refresh(), query)
        if answer is None or answer.failure is QueryFailure.NOT_PRESENT:
            raise TaskNotReadyError(
                f"task {query.task_id} of application {self._application_id!r} moves between actors"
            )
        if answer.failure is QueryFailure.NOT_ACTIVE:
            raise TaskNotReadyError(f"task {query.task_id} of {self._application_id!r} restores its state")
        if answer.failure is QueryFailure.DOES_NOT_EXIST:
            raise await self._unknown(query.store)
        if answer.failure is not None:
            raise StateStoreError(f"store {query.store!r} of task {query.task_id}: {answer.detail}")
        return answer

    async def _ask_at(self, metadata: ApplicationMetadata, query: StoreQuery) -> StoreAnswer | None:
        name = metadata.placement.get(query.task_id)
        if name is None or name not in metadata.actors:
            return None
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane(_caller(metadata.actors[name]))
        try:
            return await lane.ask(query)
        except (RayActorError, TimeoutError):
            # A handle to a dead actor stays dead; a new actor has a new name and a lane of its own.
            self._lanes.pop(name, None)
            return None
        except RayTaskError as error:
            if isinstance(error.cause, ApplicationStateError):
                return None  # the actor's loop has ended: its tasks go elsewhere, or the application ends
            raise StateStoreError(f"store {query.store!r} of task {query.task_id}: {error.cause or error}") from error

    async def _store(self, name: str) -> StoreMetadata:
        stores = await self.stores()
        if name not in stores:
            stores = (await self._refresh()).stores
        if name not in stores:
            raise await self._unknown(name)
        return stores[name]

    async def _unknown(self, name: str) -> Exception:
        status = await self.status()
        if status.state is ApplicationState.CREATED:
            return TaskNotReadyError(f"application {self._application_id!r} is starting")
        known = ", ".join(sorted((await self._refresh()).stores)) or "none"
        return UnknownStateStoreError(
            f"application {self._application_id!r} has no state store {name!r}; its stores: {known}"
        )

    async def _key_bytes(self, store: str, key: Any) -> bytes:
        serde = await self.key_serde(store)
        try:
            return serde.serialize(key)
        except Exception as error:  # a serde may raise anything: see Serde
            raise SerializationError(
                f"store {store!r}: the key serde {serde.name} refuses {key!r}: {type(error).__name__}: {error}"
            ) from error

    # ---- the coordinator ----

    async def _refresh(self) -> ApplicationMetadata:
        """Ask the coordinator anew; all who need it at the same time share one call."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._fetch_metadata())
        return await asyncio.shield(self._refreshing)

    async def _fetch_metadata(self) -> ApplicationMetadata:
        metadata: ApplicationMetadata = await self._ask_coordinator("metadata")
        self._lanes = {name: lane for name, lane in self._lanes.items() if name in metadata.actors}
        # One that is still starting knows no stores: nothing to remember.
        self._metadata = metadata if metadata.stores else None
        return metadata

    async def _ask_coordinator(self, method: str, *arguments: Any) -> Any:
        """Call the coordinator; looks it up anew when it is another one than before."""
        for attempt in range(2):
            if self._coordinator is None:
                try:
                    self._coordinator = await asyncio.to_thread(
                        ray.get_actor, coordinator_name(self._application_id), NAMESPACE
                    )
                except ValueError:
                    raise ApplicationStateError(f"application {self._application_id!r} does not run") from None
            try:
                ref = getattr(self._coordinator, method).remote(*arguments)
                return await asyncio.wait_for(asyncio.wrap_future(ref.future()), _CALL_S)
            except RayActorError:
                self._coordinator = None
                if attempt:
                    raise ApplicationStateError(f"application {self._application_id!r} does not run") from None
            except TimeoutError:
                raise TaskNotReadyError(f"the coordinator of {self._application_id!r} does not answer") from None
        raise AssertionError("unreachable")


class _Lane:
    """The questions to one actor: one call under way, what comes meanwhile waits for the next."""

    def __init__(self, call: Callable[[list[StoreQuery]], Awaitable[list[StoreAnswer]]]) -> None:
        self._call = call
        self._waiting: list[tuple[StoreQuery, asyncio.Future[StoreAnswer]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def ask(self, query: StoreQuery) -> StoreAnswer:
        """The actor's answer. Raises what the call raised."""
        future: asyncio.Future[StoreAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((query, future))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        return await future

    async def _send(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                answers = await self._call([query for query, _ in batch])
            except Exception as error:  # handed to everyone who waits for it
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
        self._sender = None


def _caller(handle: Any) -> Callable[[list[StoreQuery]], Awaitable[list[StoreAnswer]]]:
    async def call(queries: list[StoreQuery]) -> list[StoreAnswer]:
        ref = handle.query.remote(queries)
        answers: list[StoreAnswer] = await asyncio.wait_for(asyncio.wrap_future(ref.future()), _CALL_S)
        return answers

    return call


def _unpickled(store: str, pickled: bytes) -> Serde[Any] | None:
    try:
        serde: Serde[Any] | None = cloudpickle.loads(pickled)
    except Exception as error:  # the serde may be of the user's code, which is imported here
        raise ConfigError(
            f"the key serde of store {store!r} cannot be used here, as the code it is made of cannot be imported: "
            f"{type(error).__name__}: {error}. Ask from the folder that the application was started in, or over HTTP"
        ) from error
    return serde


def _encoded(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode()


def _decoded(cursor: str) -> bytes:
    try:
        return base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"not a cursor of an earlier page: {cursor!r}") from None
