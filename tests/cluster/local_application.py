"""An application without Ray and Kafka: real stream loops on the fake broker, asked by the real read side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

import penstock as ps
from penstock.actors.flame import Flame
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.spec import ApplicationSpec
from penstock.actors.store_queries import StoreAnswer, StoreQuery
from penstock.api.app import create_app
from penstock.cluster.application_history import ApplicationHistory
from penstock.cluster.application_metadata import ApplicationMetadata, StoreMetadata
from penstock.cluster.client.server_settings import ServerSettings
from penstock.cluster.dead_letters.shown_letters import LetterSource
from penstock.cluster.program_view import ProgramView, RolloutView
from penstock.cluster.programs.program_drawing import program_view
from penstock.cluster.queries.queries import StateQueries
from penstock.cluster.queries.queryable import views_of
from penstock.cluster.rollout import NEVER
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.cluster.topic_reading.sources import TopicSource
from penstock.common.ids import TaskId
from penstock.common.partitioners import Partitioner
from penstock.common.topics import NewTopic
from penstock.testing.fake_broker import FakeRecord
from penstock.topology.physical.key_placement import topics_by_placed_store
from penstock.topology.physical.topology import changelog_topic, internal_topic
from tests.actors.rig import APPLICATION, Rig, settle

STRING = ps.Serdes.string()


class _Remote:
    """Looks like a method of a Ray actor."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def remote(self, *arguments: Any) -> _Remote:
        self._arguments = arguments
        return self

    def future(self) -> Future[Any]:
        answer: Future[Any] = Future()
        try:
            answer.set_result(self._function(*self._arguments))
        except Exception as error:
            answer.set_exception(error)
        return answer


class Actor:
    """A stream loop that works while it is asked, and :meth:`LocalApplication.settle` lets it."""

    def __init__(self, loop: StreamLoop) -> None:
        self.loop = loop
        self.query = _Remote(self._query)
        self.flame = _Remote(lambda seconds: Flame(((("stream",), 1),), 1, seconds, "penstock"))

    def _query(self, queries: Sequence[StoreQuery]) -> list[StoreAnswer]:
        asked = self.loop.query(queries)
        while not asked.done():
            self.loop.step()
        return asked.result()


class LocalApplication:
    """``topology`` on topics of ``partitions`` partitions, its tasks on two actors. Stands for the coordinator, too."""

    def __init__(
        self, state_dir: Path, topology: ps.Topology, topics: Iterable[str], partitions: int = 3, **config: Any
    ) -> None:
        self.topology, self.partitions = topology, partitions
        settings = {"statestore_cache_max_bytes": 0, "commit_interval_ms": 1000, **config}
        self.rig = Rig(state_dir, topology, partitions, **settings)
        changelogs = [f"{APPLICATION}-{name}-changelog" for name in topology.store_builders]
        existing = self.rig.broker.topics()
        names = [name for name in (*topics, *changelogs) if name not in existing]
        self.rig.clients.admin().create_topics([NewTopic(name, partitions) for name in names])
        tasks = [TaskId(sub.id, number) for sub in topology.subtopologies for number in range(partitions)]
        self.placement = {task: "ab"[task.partition % 2] for task in tasks}
        self.partitioner = Partitioner.MURMUR2
        self.actors: dict[str, Actor] = {}
        for slot, name in enumerate(sorted(set(self.placement.values())), 1):
            mine = [task for task in tasks if self.placement[task] == name]
            self.actors[name] = Actor(self.rig.running(*mine, slot=slot))
        self.metadata, self.status = _Remote(self._metadata), _Remote(self._status)
        self.ask_program = _Remote(self._answer)
        self.pause = _Remote(self._pause)
        self.program_view = _Remote(self._program_view)
        self.rollout_view = _Remote(lambda: RolloutView(NEVER, {1: "fingerprint"}, None))
        self.set_stream_actors = self.move_task = self.restart_actor = _Remote(lambda *_: None)
        self.history = _Remote(lambda *_: ApplicationHistory(0))

    def _metadata(self) -> ApplicationMetadata:
        stores, placement = {}, dict(self.placement)
        prefix = internal_topic(APPLICATION, "")
        placed = topics_by_placed_store(self.topology, STRING, lambda _: self.partitions, prefix)
        for sub in self.topology.every_subtopology:
            is_global = sub in self.topology.global_subtopologies
            topic = sub.sources[0].topics[0]
            for store in sub.stores:
                count = 1 if is_global else self.partitions
                where = store.name, store.kind, sub.id, count, topic, topic
                certain = is_global or store.name in placed
                stores[store.name] = StoreMetadata(
                    *where,
                    certain,
                    self.partitioner,
                    views=views_of(store),
                    changelog=topic if is_global else changelog_topic(APPLICATION, store),
                    is_global=is_global,
                )
            if is_global:
                placement[TaskId(sub.id, 0)] = "a"
        return ApplicationMetadata(APPLICATION, 1, stores, placement, self.actors)

    def _status(self) -> ApplicationStatus:
        return ApplicationStatus(APPLICATION, ApplicationState.RUNNING, 1, (), self.placement)

    def _pause(self, paused: bool) -> ApplicationStatus:
        return replace(self._status(), paused=paused)

    def _answer(self, question: Callable[[ApplicationSpec], Any]) -> Any:
        answer = question(self.rig.spec)
        if isinstance(answer, LetterSource):
            committed = replace(self.rig.clients, read_committed=True)
            return replace(answer, reading=committed, writing=committed)
        return replace(answer, clients=self.rig.clients) if isinstance(answer, TopicSource) else answer

    def _program_view(self, generation: int | None) -> ProgramView | None:
        return program_view(self.rig.spec, 1) if generation in (None, 1) else None

    def write(self, topic: str, key: str, value: str | None, timestamp: int, partition: int = -1) -> int:
        """A record; its offset."""
        data = None if value is None else value.encode()
        return self.rig.broker.append(topic, FakeRecord(key.encode(), data, timestamp, None), partition)

    def settle(self) -> None:
        """Let the actors process all that is there."""
        for actor in self.actors.values():
            settle(actor.loop)

    def commit(self) -> None:
        """Let them commit it."""
        self.rig.clock.now_ms += 1001
        self.settle()

    def close(self) -> None:
        """End the actors."""
        for actor in self.actors.values():
            self.rig.stop(actor.loop)


class OneLoopTransport(httpx.BaseTransport):
    """Asks the HTTP API over ``queries`` without a socket, always in the same event loop."""

    def __init__(self, application_id: str, settings: ServerSettings | None = None) -> None:
        self._runner = asyncio.Runner()
        app = create_app(StateQueries(application_id), settings)
        self._inner = httpx.ASGITransport(app, raise_app_exceptions=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def ask() -> httpx.Response:
            answer = await self._inner.handle_async_request(request)
            await answer.aread()
            return answer

        answer = self._runner.run(ask())
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def close(self) -> None:
        self._runner.close()
