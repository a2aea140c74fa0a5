"""The coordinator's Ray actor where its order of events matters; stream actors are stand-ins, no Ray runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace

import pytest
import ray
from ray import cloudpickle

import penstock as ps
from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.coordinator_shell import coordinator_actor
from penstock.cluster.events import Event, TasksHeld
from penstock.cluster.queries.key_serdes import pickled_key_serdes
from penstock.cluster.rollout import Hold
from penstock.cluster.status import ApplicationState
from penstock.cluster.watchers.broker_watch import BrokerWatch
from penstock.common.config import StreamsConfig
from penstock.state.entries import PLAIN
from penstock.testing.fake_clients import FakeClients
from tests.cluster.restarted_coordinator import LivingActor, Restarted, periodic_work_of
from tests.cluster.restarted_coordinator import restarted as restarted
from tests.cluster.virtual_time import run


def test_a_stop_that_finds_the_coordinator_just_restarted_stops_the_actors_that_live() -> None:
    async def play() -> None:
        living = LivingActor()
        coordinator = Restarted(living)
        stopping = asyncio.create_task(coordinator.stop())
        await asyncio.sleep(0)
        coordinator.may_begin.set()
        status = await asyncio.wait_for(stopping, 10)
        assert status.state is ApplicationState.NOT_RUNNING
        assert living.stopped.is_set()
        assert living.killed

    run(play())


def test_work_that_fails_now_and_then_is_done_again_and_ends_nothing() -> None:
    async def play() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        await asyncio.sleep(5)
        assert coordinator.looks > 2
        assert (await coordinator.status()).state is ApplicationState.CREATED
        await coordinator.stop()

    run(play())


def test_the_group_is_left_once_and_a_driver_that_sees_the_end_waits_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def leave(config: StreamsConfig, left_s: float) -> str | None:
        calls.append(f"leave {config.application_id}")
        return "nobody answers"

    async def play() -> None:
        may_leave = asyncio.Event()

        async def threaded(function: Callable[..., object], *arguments: object) -> object:
            if function is leave:
                await may_leave.wait()
            return function(*arguments)

        monkeypatch.setattr(coordinator_actor, "leave_group", leave)
        monkeypatch.setattr(asyncio, "to_thread", threaded)
        coordinator = Restarted(LivingActor())
        coordinator._deployments._specs[1] = ApplicationSpec(ps.Topology(), StreamsConfig.of({"application.id": "app"}))
        coordinator.may_begin.set()
        await coordinator.has_left()
        await coordinator.stop(leave=True)
        driver = asyncio.create_task(coordinator.has_left())
        command = asyncio.create_task(coordinator.leave_group())
        await asyncio.sleep(1)
        assert not driver.done()
        may_leave.set()
        assert await command == "nobody answers"
        await driver
        assert calls == ["leave app"]

    run(play())


def test_an_http_server_that_does_not_answer_does_not_hold_up_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = SimpleNamespace(remote=lambda: SimpleNamespace(future=Future))
    silent = SimpleNamespace(known_address=SimpleNamespace(options=lambda **_: asked))
    monkeypatch.setattr(ray, "get_actor", lambda *_, **__: silent)

    async def play() -> None:
        coordinator = Restarted(LivingActor())
        await asyncio.wait_for(coordinator._http.ask(), 60)
        assert (await coordinator.status()).http_address is None
        coordinator._beginning.cancel()

    run(play())


def test_a_commit_before_the_coordinator_has_joined_the_group_is_answered() -> None:
    async def play() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        request = CommitRequest("stream/1", 1, {}, 1)
        assert await coordinator.commit(request) == CommitAnswer(
            False, "the coordinator is not a member of the group yet"
        )
        await coordinator.stop()
        answer = await coordinator.commit(request)
        assert answer is not None
        assert not answer.accepted

    run(play())


def test_the_key_serdes_of_a_store_are_its_own_and_that_of_the_topic_that_places_its_keys() -> None:
    string, json, long = ps.Serdes.string(), ps.Serdes.json(), ps.Serdes.long()
    counted = ps.StreamsBuilder()
    stream = counted.stream("in", ps.Consumed.with_(json, string))
    stream.group_by_key().count(ps.Materialized.as_("own").with_key_serde(string))
    by_value = stream.group_by(lambda _, value: value, ps.Grouped.with_(string, string).with_name("by-value"))
    by_value.count(ps.Materialized.as_("grouped").with_key_serde(json))
    counted.stream("usual").group_by_key().count(ps.Materialized.as_("default"))
    entries = {"application.id": "app", "default.key.serde": long}

    async def play() -> None:
        coordinator = Restarted(LivingActor())
        spec = ApplicationSpec(counted.build(), StreamsConfig.of(entries))
        coordinator._spec = coordinator._deployments._specs[1] = spec

        async def serdes(store: str, topic: str) -> object:
            answer = await coordinator.ask_program(partial(pickled_key_serdes, store=store, source_topic=topic))
            assert isinstance(answer, bytes)
            return cloudpickle.loads(answer)

        assert await serdes("own", "in") == (string, json, PLAIN)
        assert await serdes("grouped", "app-by-value-repartition") == (json, string, PLAIN)
        assert await serdes("default", "usual") == (long, long, PLAIN)
        coordinator.may_begin.set()
        await coordinator.stop()

    run(play())


def test_the_state_machine_hears_of_a_pause_and_of_brokers_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        await coordinator._beginning
        assert coordinator._dispatcher is not None
        fed: list[Event] = []
        monkeypatch.setattr(coordinator._dispatcher, "feed", fed.append)
        work = periodic_work_of(coordinator)
        await work._check_holds()
        coordinator._pausing.paused = True
        await work._check_holds()
        await work._check_holds()
        coordinator._pausing.paused = False
        coordinator._broker_watch = BrokerWatch("app", "kafka:9092", FakeClients("app").admin, lambda: 0.0)
        coordinator._broker_watch.reason = "no broker answers at kafka:9092"
        await work._check_holds()
        coordinator._broker_watch.reason = None
        await work._check_holds()
        assert fed == [TasksHeld(Hold.PAUSED), TasksHeld(Hold.NO_BROKER), TasksHeld(None)]

    run(play())
