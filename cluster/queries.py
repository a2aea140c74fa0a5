"""The read side over actor calls: routes each question to the task that holds the answer.

Measured need: thousands of single look-ups a second through calls that cost Ray half a millisecond each. So at most one
call is under way per actor, and all questions that come meanwhile travel together in the next.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import heapq
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import ray
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError

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
from penstock.common.log import logger
from penstock.common.murmur2 import partition_for
from penstock.common.serdes import Serde

_OVER = frozenset(
    {ApplicationState.PENDING_SHUTDOWN, ApplicationState.NOT_RUNNING, ApplicationState.PENDING_ERROR,
     ApplicationState.ERROR}
)  # fmt: skip

T = TypeVar("T")
_Row = tuple[bytes, Any, int | None]
_Caller = Callable[[list[StoreQuery]], Coroutine[Any, Any, list[StoreAnswer]]]
_CALL_S = 10.0
_MOST_WAITING = 10_000  # look-ups that one reader lets wait for one actor
_PIECE_ROWS = 1000
_PAGE_BYTES = 16 << 20
_OLD_S = 10.0  # so long is a task thought to be where it was


class StateQueries:
    """:class:`~penstock.cluster.read_side.ReadSide` of one application. Belongs to one event loop."""

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id
        self._coordinator: Any = None
        self._key_serdes: dict[str, Serde[Any] | None] = {}
        self._metadata: ApplicationMetadata | None = None
        self._fetched_at = 0.0
        self._refreshing: asyncio.Task[ApplicationMetadata] | None = None
        self._lanes: dict[tuple[str, bool], _Lane] = {}
        self._log = logger("penstock.cluster.queries")

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
        if asyncio.get_running_loop().time() - self._fetched_at > _OLD_S:
            # Nothing else would tell that a topic has got partitions, and that keys are elsewhere since.
            self._refresh_behind()
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
        """See the contract. A page may be shorter than ``limit`` where its rows are large: its cursor says so."""
        serde = await self.key_serde(store)
        lower = None if from_key is None else await self._key_bytes(store, from_key)
        upper = None if to_key is None else await self._key_bytes(store, to_key)
        if cursor is not None:
            # The smallest key behind the last one given.
            lower = _decoded(cursor) + b"\x00"
        where = await self._store(store)
        query = StoreQuery(
            TaskId(where.subtopology, 0), store, QueryKind.RANGE,
            from_key=lower, to_key=upper, limit=min(limit + 1, _PIECE_ROWS), committed=committed,
        )  # fmt: skip
        tasks = [TaskId(where.subtopology, partition) for partition in range(where.partitions)]
        parts = [_Part(self._ask, replace(query, task_id=task)) for task in tasks]
        page, more = await _first_rows(parts, limit)
        entries = tuple(self._entry(store, serde, row) for row in page)
        return StoreEntries(entries, _encoded(page[-1][0]) if more else None)

    def _entry(self, store: str, serde: Serde[Any], row: _Row) -> StoreEntry:
        key, value, timestamp = row
        try:
            return StoreEntry(serde.deserialize(key), value, timestamp)
        except Exception as error:  # a serde may raise anything: see Serde. One such key must not hide all the others
            self._log.warning("the serde cannot read a key", store=store, key=key, serde=serde.name, error=repr(error))
            return StoreEntry(key, value, timestamp)

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
            raise await self._not_there(query.task_id)
        if answer.failure is QueryFailure.NOT_ACTIVE:
            raise TaskNotReadyError(f"task {query.task_id} of {self._application_id!r} restores its state")
        if answer.failure is QueryFailure.BUSY:
            raise TaskNotReadyError(f"task {query.task_id} of {self._application_id!r} is busy: {answer.detail}")
        if answer.failure is QueryFailure.DOES_NOT_EXIST:
            raise await self._unknown(query.store)
        if answer.failure is not None:
            raise StateStoreError(f"store {query.store!r} of task {query.task_id}: {answer.detail}")
        return answer

    async def _not_there(self, task: TaskId) -> Exception:
        """Why no actor has the task: for a moment, or because none will ever have it again."""
        status = await self.status()
        if status.state in _OVER:
            why = status.error or "it is being stopped, or was"
            return ApplicationStateError(
                f"application {self._application_id!r} is in state {status.state.value}: {why}"
            )
        return TaskNotReadyError(f"task {task} of application {self._application_id!r} moves between actors")

    async def _ask_at(self, metadata: ApplicationMetadata, query: StoreQuery) -> StoreAnswer | None:
        name = metadata.placement.get(query.task_id)
        if name is None or name not in metadata.actors:
            return None
        which = name, query.kind is QueryKind.RANGE  # look-ups do not wait behind ranges
        lane = self._lanes.get(which)
        if lane is None:
            lane = self._lanes[which] = _Lane(name, _caller(metadata.actors[name]))
        try:
            return await lane.ask(query)
        except RayTaskError as error:
            if isinstance(error.cause, ApplicationStateError):
                return None  # the actor's loop has ended: its tasks go elsewhere, or the application ends
            raise StateStoreError(f"store {query.store!r} of task {query.task_id}: {error.cause or error}") from error
        except RayError:
            # Dead, out of memory, out of reach: lost. A new actor has a new name and a lane of its own.
            self._lanes.pop(which, None)
            return None

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

    def _refresh_behind(self) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._fetch_metadata())
            self._refreshing.add_done_callback(lambda it: it.cancelled() or it.exception())  # asked again soon enough

    async def _fetch_metadata(self) -> ApplicationMetadata:
        metadata: ApplicationMetadata = await self._ask_coordinator("metadata")
        self._fetched_at = asyncio.get_running_loop().time()
        self._lanes = {which: lane for which, lane in self._lanes.items() if which[0] in metadata.actors}
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
            except RayTaskError:
                raise
            except RayError:
                self._coordinator = None
                if attempt:
                    raise ApplicationStateError(f"application {self._application_id!r} does not run") from None
            except TimeoutError:
                raise TaskNotReadyError(f"the coordinator of {self._application_id!r} does not answer") from None
        raise AssertionError("unreachable")


class _Lane:
    """The questions to one actor: one call under way, what comes meanwhile waits for the next.

    A call that takes too long is given up by those who wait, but not repeated: until it has been answered, or the actor
    is lost, further questions are told at once to come later.
    """

    def __init__(self, actor: str, call: _Caller) -> None:
        self._actor = actor
        self._call = call
        self._waiting: list[tuple[StoreQuery, asyncio.Future[StoreAnswer]]] = []
        self._sender: asyncio.Task[None] | None = None
        self._under_way: asyncio.Task[list[StoreAnswer]] | None = None
        self._late = False

    async def ask(self, query: StoreQuery) -> StoreAnswer:
        """The actor's answer. Raises what the call raised, TaskNotReadyError when the actor is busy."""
        if self._late:
            raise self._busy(f"has not answered for {_CALL_S:.0f} s")
        if len(self._waiting) >= _MOST_WAITING:
            raise self._busy(f"has {len(self._waiting)} queries waiting")
        future: asyncio.Future[StoreAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((query, future))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        return await future

    def _busy(self, why: str) -> TaskNotReadyError:
        return TaskNotReadyError(f"actor {self._actor} {why}: it is busy, ask again later")

    async def _send(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            call = self._under_way = asyncio.create_task(self._call([query for query, _ in batch]))
            answered, _ = await asyncio.wait({call}, timeout=_CALL_S)
            if not answered:
                late = [future for _, future in batch + self._waiting]
                self._waiting, self._late = [], True
                for future in late:
                    _fail(future, self._busy(f"has not answered for {_CALL_S:.0f} s"))
                await asyncio.wait({call})
                self._late = False
            error = call.exception()
            for index, (_, future) in enumerate(batch):
                if error is not None:
                    _fail(future, error)
                elif not future.done():
                    future.set_result(call.result()[index])
        self._sender = None


def _fail(future: asyncio.Future[StoreAnswer], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _caller(handle: Any) -> _Caller:
    async def call(queries: list[StoreQuery]) -> list[StoreAnswer]:
        answers: list[StoreAnswer] = await asyncio.wrap_future(handle.query.remote(queries).future())
        return answers

    return call


class _Part:
    """The rows of one task in a range, asked for piece by piece as they are needed."""

    def __init__(self, ask: Callable[[StoreQuery], Awaitable[StoreAnswer]], query: StoreQuery) -> None:
        self._ask = ask
        self._query = query
        self._rows: Iterator[_Row] = iter(())
        self._last: bytes | None = None
        self._more = True
        self.row_bytes = 0.0

    async def next(self) -> _Row | None:
        """The next row by key; None behind the last one."""
        row = next(self._rows, None)
        while row is None and self._more:
            query = self._query
            if self._last is not None:
                query = replace(query, from_key=self._last + b"\x00")  # the smallest key behind it
            answer = await self._ask(query)
            self._more = answer.more or len(answer.rows) >= query.limit
            self.row_bytes = answer.size / max(1, len(answer.rows))
            self._rows = iter(answer.rows)
            row = next(self._rows, None)
        if row is not None:
            self._last = row[0]
        return row


async def _first_rows(parts: Sequence[_Part], limit: int) -> tuple[list[_Row], bool]:
    """The first rows of all parts together, at most ``limit`` of them and about _PAGE_BYTES; whether there are more."""
    heads = await asyncio.gather(*(part.next() for part in parts))
    heap = [(head[0], index, head) for index, head in enumerate(heads) if head is not None]
    heapq.heapify(heap)
    rows: list[_Row] = []
    size = 0.0
    while heap and len(rows) < limit and size < _PAGE_BYTES:
        _, index, row = heap[0]
        rows.append(row)
        size += parts[index].row_bytes
        following = await parts[index].next()
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following[0], index, following))
    return rows, bool(heap)


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
