"""A read side in memory, against which the routes are tested."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

import penstock as ps
from penstock.actors.commit_stops import CommitStops
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.program_view import DifferenceView
from penstock.cluster.programs.program_drawing import program_view
from penstock.cluster.read_side import (
    ActorStatus,
    ApplicationHistory,
    ApplicationState,
    ApplicationStatus,
    Flame,
    FlameRefused,
    KeyQuery,
    ProgramView,
    Query,
    RangeQuery,
    Reading,
    ReadSide,
    RolloutView,
    RowsQuery,
    StoreEntries,
    StoreEntry,
    StoreMetadata,
    TaskState,
    TaskStatus,
)
from penstock.common.config import StreamsConfig
from penstock.common.errors import SerializationError, UnknownStateStoreError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.position import Position
from penstock.common.serdes import Serde, Serdes
from tests.api.fake_letters import FakeLetterSide
from tests.api.fake_records import FakeRecordSide
from tests.api.shared_app import app_of

APPLICATION_ID = "word-count"
POSITION = Position({"words": {0: 41, 1: 7}})

STATUS = ApplicationStatus(
    application_id=APPLICATION_ID,
    state=ApplicationState.RUNNING,
    epoch=3,
    actors=(
        ActorStatus(
            actor_id="actor-1",
            node_id="node-1",
            pid=4711,
            epoch=3,
            commits=7,
            commit_stops=CommitStops(
                7, 7, per_commit_avg_ms=0.5, per_commit_max_ms=1.25, latency_avg_ms=8.5, latency_max_ms=12.25
            ),
            tasks=(
                TaskStatus(
                    TaskId(1, 0),
                    TaskState.RUNNING,
                    records_processed=120,
                    dropped_records=2,
                    lost_records=4,
                    lags={TopicPartition("word-count-counts-repartition", 0): 5},
                    committed={TopicPartition("word-count-counts-repartition", 0): 100},
                ),
                TaskStatus(TaskId(0, 0), TaskState.RESTORING, restore_remaining=9, restore_total=30, restore_rate=6.0),
            ),
        ),
    ),
    placement={TaskId(1, 0): "actor-1", TaskId(0, 0): "actor-1", TaskId(0, 1): "actor-2"},
    http_address="http://127.0.0.1:8080",
)


def split(line: str) -> list[str]:
    """A function of the program."""
    return line.split()


def word_count() -> ApplicationSpec:
    """Returns a program with the tasks of the status."""
    text, number = ps.Serdes.string(), ps.Serdes.long()
    builder = ps.StreamsBuilder()
    (
        builder.stream("words", ps.Consumed.with_(text, text))
        .flat_map_values(split, named="split")
        .group_by(lambda word: word, ps.Grouped.with_(text, text))
        .count(ps.Materialized.as_("counts"))
        .to_stream()
        .to("counts-of-words", ps.Produced.with_(text, number))
    )
    return ApplicationSpec(builder.build(), StreamsConfig.of({"application.id": APPLICATION_ID}))


@dataclass
class FakeStore:
    """Rows by serialised key, as a store holds them."""

    key_serde: Serde[Any]
    rows: dict[bytes, tuple[Any, int | None]] = field(default_factory=dict)
    uncommitted: set[bytes] = field(default_factory=set)

    def put(self, key: Any, value: Any, timestamp: int | None = None, committed: bool = True) -> None:
        """Set a row."""
        raw = self.key_serde.serialize(key)
        self.rows[raw] = (value, timestamp)
        if not committed:
            self.uncommitted.add(raw)

    def key_bytes(self, key: Any) -> bytes:
        """Serialises ``key`` as a store would. Raises SerializationError if the serde refuses it."""
        try:
            return self.key_serde.serialize(key)
        except Exception as error:
            raise SerializationError(f"the key serde {self.key_serde.name} refuses {key!r}") from error

    def visible(self, committed: bool) -> dict[bytes, tuple[Any, int | None]]:
        """The rows a query sees, by key."""
        hidden = self.uncommitted if committed else set()
        return {raw: self.rows[raw] for raw in sorted(self.rows.keys() - hidden)}

    def entry(self, raw: bytes) -> StoreEntry:
        """One row, decoded."""
        return StoreEntry(self.key_serde.deserialize(raw), *self.rows[raw])


class FakeOperateSide:
    """Satisfies ``OperateSide``. ``refused`` is the reason why operations are refused, ``done`` has the others."""

    def __init__(self, side: FakeReadSide) -> None:
        self._side = side
        self.refused: str | None = None
        self.done: list[str] = []

    async def pause(self, paused: bool) -> ApplicationStatus:
        await self._side.status()
        self._side.current = replace(self._side.current, paused=paused)
        return self._side.current

    async def scale(self, count: int) -> str | None:
        return await self._operated(f"scale to {count}")

    async def move(self, task: TaskId, to: str) -> str | None:
        return await self._operated(f"move {task} to {to}")

    async def restart(self, actor_id: str) -> str | None:
        return await self._operated(f"restart {actor_id}")

    async def _operated(self, what: str) -> str | None:
        await self._side.status()
        if self.refused is None:
            self.done.append(what)
        return self.refused


class FakeReadSide:
    """Satisfies ``ReadSide``. ``failure`` is raised by the next call."""

    application_id = APPLICATION_ID

    def __init__(self) -> None:
        self.current = STATUS
        self.failure: Exception | None = None
        self.flames: dict[str, Flame | FlameRefused] = {}
        self.records = FakeRecordSide(APPLICATION_ID)
        self.difference: DifferenceView | None = None
        self.programs: dict[int, ProgramView] = {1: program_view(word_count(), 1)}
        self.operations = FakeOperateSide(self)
        self.remembered = ApplicationHistory(began_ms=0)
        self.asked_times, self.asked_parts = (0, 0), (True, True)
        self.letters = FakeLetterSide()
        self.fakes = {"counts": FakeStore(Serdes.string()), "by-number": FakeStore(Serdes.integer())}

    def _store(self, name: str) -> FakeStore:
        if self.failure is not None:
            raise self.failure
        if name not in self.fakes:
            raise UnknownStateStoreError(f"no store {name}")
        return self.fakes[name]

    async def status(self) -> ApplicationStatus:
        if self.failure is not None:
            raise self.failure
        return self.current

    async def program_view(self, generation: int | None = None) -> ProgramView | None:
        if self.failure is not None:
            raise self.failure
        wanted = self.current.rollout.generation if generation is None else generation
        return self.programs.get(wanted)

    async def rollout_view(self) -> RolloutView:
        if self.failure is not None:
            raise self.failure
        prints = {number: each.fingerprint for number, each in self.programs.items()}
        return RolloutView(self.current.rollout, prints, self.difference)

    async def history(self, from_ms: int, to_ms: int, tasks: bool, details: bool) -> ApplicationHistory:
        if self.failure is not None:
            raise self.failure
        self.asked_times, self.asked_parts = (from_ms, to_ms), (tasks, details)
        samples = tuple(each for each in self.remembered.samples if from_ms <= each.at_ms <= to_ms)
        return replace(self.remembered, samples=samples)

    async def flame(self, actor_id: str, seconds: float) -> Flame | FlameRefused | None:
        if self.failure is not None:
            raise self.failure
        return self.flames.get(actor_id)

    async def stores(self) -> Mapping[str, StoreMetadata]:
        return {
            name: StoreMetadata(name, "timestamped key-value", 1, 4, f"app-{name}-changelog", "in")
            for name in self.fakes
        }

    async def store(self, name: str) -> StoreMetadata:
        self._store(name)
        return (await self.stores())[name]

    async def key_serde(self, store: str) -> Serde[Any]:
        return self._store(store).key_serde

    async def find_row(self, store: str, query: Query, reading: Reading | None = None) -> StoreEntry | None:
        fake, reading = self._store(store), self._answering(reading)
        raw = fake.key_bytes(query.about)
        return fake.entry(raw) if raw in fake.visible(reading.committed) else None

    async def get_many(
        self, store: str, keys: Sequence[Any], reading: Reading | None = None
    ) -> list[StoreEntry | None]:
        return [await self.find_row(store, KeyQuery(key), reading) for key in keys]

    async def page(
        self, store: str, query: RowsQuery, limit: int, cursor: str | None = None, reading: Reading | None = None
    ) -> StoreEntries:
        assert isinstance(query, RangeQuery)
        fake, reading = self._store(store), self._answering(reading)
        first = b"" if query.from_key is None else fake.key_bytes(query.from_key)
        if cursor is not None:
            first = bytes.fromhex(cursor) + b"\0"
        last = None if query.to_key is None else fake.key_bytes(query.to_key)
        wanted = [raw for raw in fake.visible(reading.committed) if raw >= first and (last is None or raw <= last)]
        entries = tuple(fake.entry(raw) for raw in wanted[:limit])
        return StoreEntries(entries, wanted[limit - 1].hex() if len(wanted) > limit else None)

    async def approximate_num_entries(self, store: str, reading: Reading | None = None) -> int:
        return len(self._store(store).visible(self._answering(reading).committed))

    @staticmethod
    def _answering(reading: Reading | None) -> Reading:
        reading = reading or Reading()
        reading.answered_at(POSITION)
        return reading


class AsgiTransport(httpx.BaseTransport):
    """Asks an ASGI application without a socket, each time in an event loop of its own: tests stay plain functions."""

    def __init__(self, read_side: ReadSide) -> None:
        self._read_side = read_side
        # Starlette raises an unexpected error again after it is answered, for the server's log: not tested here.
        self._inner = httpx.ASGITransport(app_of(read_side), raise_app_exceptions=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        app_of(self._read_side)  # a test may have several clients

        async def ask() -> httpx.Response:
            answer = await self._inner.handle_async_request(request)
            content = b"".join([part async for part in answer.aiter_raw()])  # as it was sent
            return httpx.Response(answer.status_code, headers=answer.headers, content=content)

        return asyncio.run(ask())


def client_of(read_side: ReadSide) -> httpx.Client:
    """A client of the API over ``read_side``."""
    return httpx.Client(transport=AsgiTransport(read_side), base_url="http://localhost")
