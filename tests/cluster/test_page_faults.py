"""Faults of a real application, as its page shows them: an actor ends while a task moves, and the broker is away."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import penstock as ps
from penstock.api.page.history_bodies import HistoryBody
from penstock.api.page.live_bodies import LiveDocument
from penstock.api.page.live_feed import MOST_STREAMS
from tests.api.events import applied, events_of
from tests.cluster.settled import until_settled
from tests.elastic.cluster import PARTITIONS, SlowCount
from tests.faults.rig import Counting, Kafka, called, kafka_behind_a_proxy
from tests.processes import signal_ray_process
from tests.waiting import PATIENCE_S, eventually

_SERVED = {"application.server": "127.0.0.1:0"}
_HALF = {"tasks.per.actor": PARTITIONS // 2}


@pytest.fixture
def ended(ray_cluster: None) -> Iterator[Callable[[str], str]]:
    """Ends the applications of these names when the test is over."""
    from penstock.cluster.client.control import end_actors
    from penstock.cluster.ray_cluster.named_actors import find_coordinator

    names: list[str] = []

    def noted(name: str) -> str:
        names.append(name)
        return name

    yield noted
    for name in names:
        end_actors(name, find_coordinator(name))


class InMemory(SlowCount):
    """Counts in memory: what moves to another actor of the same node has to be warmed up there, too."""

    def __init__(self, broker: str, name: str, state_dir: Path, **entries: Any) -> None:
        super().__init__(broker, name, state_dir, 0.0, None, **entries)
        builder, string = ps.StreamsBuilder(), ps.Serdes.string()
        store: ps.Materialized[Any, Any] = ps.Materialized.as_("counts").with_store_type(ps.StoreType.IN_MEMORY)
        store = store.with_caching_disabled()  # each count is written
        counts = builder.stream(self.input, ps.Consumed.with_(string, string)).group_by_key().count(store)
        counts.to_stream().map_values(str).to(self.output, ps.Produced.with_(string, string))
        self._topology = builder.build()
        self.app = self.another()


class Shown:
    """The page's documents of an application."""

    def __init__(self, app: Any, name: str) -> None:
        address = app.status().http_address
        assert address is not None
        self.client = httpx.Client(base_url=address, timeout=PATIENCE_S)
        self.of = f"/v1/applications/{name}"

    def live(self) -> LiveDocument:
        """The first document of a new stream."""
        with self.client.stream("GET", f"{self.of}/live") as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: whole"
            return LiveDocument.model_validate_json(next(lines).removeprefix("data: "))

    def sentences(self) -> list[str]:
        """The events of the history."""
        body = HistoryBody.model_validate(self.client.get(f"{self.of}/history", params={"tasks": ""}).json())
        return [event.sentence for event in body.events]


@pytest.mark.long
@pytest.mark.parametrize("lost", ["the actor that has the task", "the actor that is to have it"])
def test_a_move_that_a_user_wants_is_over_in_words_when_an_actor_is_killed_in_the_middle(
    lost: str, broker: str, topic_name: Callable[[str], str], tmp_path: Path, ended: Callable[[str], str]
) -> None:
    settings = {"processing.guarantee": "exactly_once_v2", **_SERVED, **_HALF}
    it = InMemory(broker, ended(topic_name("move")), tmp_path, **settings)
    it.app.start()
    until_settled(it.app)
    it.send(200)
    shown = Shown(it.app, it.app.application_id)
    with it.fed():
        eventually(lambda: it.processed() >= 200, "the first records are counted")
        first, second = sorted(shown.live().actors)
        task = min(name for name, row in shown.live().tasks.items() if row.actor_id == first)
        pids = {actor.actor_id: actor.pid for actor in it.app.status().actors}
        signal_ray_process(pids[second], signal.SIGSTOP)  # so the move is not over before the end of an actor
        try:
            answer = shown.client.post(f"{shown.of}/tasks/{task}/move", json={"to": second})
            assert answer.status_code == 200, answer.text
            assert shown.live().tasks[task].moving_to == second
            signal_ray_process(pids[first if "that has" in lost else second])
        finally:
            if "that has" in lost:
                signal_ray_process(pids[second], signal.SIGCONT)

        def settled() -> bool:
            now = shown.live()
            running = all(row.state == "running" and row.moving_to is None for row in now.tasks.values())
            return running and len(now.tasks) == PARTITIONS and now.application["it"].state == "RUNNING"

        eventually(settled, "every task runs")
    eventually(lambda: it.processed() >= sum(it.sent.values()), "all is counted")
    assert it.is_exact(), "something was lost, or counted twice"
    asked = f"a user has asked to move task {task} to {second}"
    sentences = shown.sentences()
    assert asked in sentences
    after = sentences[sentences.index(asked) :]
    kept = any(f"task {task} moves from {first} to {second}" in each for each in after)
    given_up = any(f"to move task {task} to {second}, which does not hold any more" in each for each in after)
    assert kept != given_up, after
    assert it.app.close()


# ---- the broker is away ----


class Page:
    """A client of the live stream, as 32 open pages have one each."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}
        self.events = 0
        self.ended = False

    async def read(self, answer: httpx.Response) -> None:
        """Applies all events until the stream ends."""
        async for kind, data in events_of(answer):
            self.events += 1
            if kind:
                self.document = data if kind == "whole" else applied(self.document, data)
        self.ended = True

    def sentences(self) -> str:
        """The sentences of its findings."""
        return " ".join(row["sentence"] for row in self.document.get("findings", {}).values())


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Kafka]:
    with kafka_behind_a_proxy(tmp_path / "kafka") as it:
        yield it


@pytest.mark.long
def test_all_open_pages_show_that_the_broker_is_away_and_that_it_is_back(
    kafka: Kafka, topic_name: Callable[[str], str], tmp_path: Path, ended: Callable[[str], str]
) -> None:
    it = Counting(kafka, ended(topic_name("away")), tmp_path / "state", **_SERVED)
    it.start()
    address = it.app.status().http_address
    assert address is not None
    asyncio.run(_with_all_pages(it, kafka, address))
    it.all_is_counted_once()
    assert it.app.close()


async def _with_all_pages(it: Counting, kafka: Kafka, address: str) -> None:
    live = f"/v1/applications/{it.application_id}/live"
    pages = [Page() for _ in range(MOST_STREAMS)]
    limits = httpx.Limits(max_connections=MOST_STREAMS + 1)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=address, timeout=PATIENCE_S, limits=limits))
        answers = [await stack.enter_async_context(client.stream("GET", live)) for _ in pages]
        reading = [asyncio.create_task(page.read(answer)) for page, answer in zip(pages, answers, strict=True)]
        try:
            await _until(pages, lambda page: "All is well" in page.sentences())
            assert (await client.get(live)).status_code == 503, "there is no place for another page"
            used = _Cpu()
            kafka.proxy.cut()
            await _until(pages, lambda page: "No broker answers" in page.sentences())
            print("while the broker was away:", used)
            seen = [page.events for page in pages]
            kafka.proxy.heal()
            await _until(pages, lambda page: "All is well" in page.sentences())
            assert all(page.events > before for page, before in zip(pages, seen, strict=True))
            print("in all:", used)
            assert not any(page.ended for page in pages)
            assert not any(task.done() for task in reading)
        finally:
            kafka.proxy.heal()
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)


async def _until(pages: list[Page], holds: Callable[[Page], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not all(map(holds, pages)):
            await asyncio.sleep(0.05)


class _Cpu:
    """The CPU time of the processes of this Ray since now, for the output of the test."""

    def __init__(self) -> None:
        self._begun_s = time.monotonic()
        self._before = self._times()

    @staticmethod
    def _times() -> dict[str, float]:
        found = called("ray::", psutil.Process())
        return {f"{each.cmdline()[0]} {each.pid}": sum(each.cpu_times()[:2]) for each in found}

    def __str__(self) -> str:
        elapsed_s = time.monotonic() - self._begun_s
        grown = {name: now - self._before.get(name, 0.0) for name, now in self._times().items()}
        shares = ", ".join(f"{name}: {spent / elapsed_s:.0%}" for name, spent in sorted(grown.items()) if spent > 0.1)
        return f"{elapsed_s:.1f} s, {shares}"
