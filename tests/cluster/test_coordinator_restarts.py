"""The end of an application, and the state that outlives a restart of its coordinator. No Ray runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from ray import cloudpickle
from structlog.testing import capture_logs

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.coordinator_shell.coordinator_actor import CoordinatorActor
from penstock.cluster.events import ApplicationFailed
from penstock.cluster.status import ApplicationState
from penstock.cluster.watchers.topic_watch import ONE_AFTER_ANOTHER_S
from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError, MissingTopicError, TopologyError
from penstock.common.handlers import UncaughtExceptionResponse
from tests.cluster.restarted_coordinator import COPY, SPEC, LivingActor, Restarted, refuse
from tests.cluster.restarted_coordinator import living as living
from tests.cluster.restarted_coordinator import restarted as restarted
from tests.cluster.virtual_time import run


def test_an_application_that_ends_in_error_logs_one_error_line_that_reports_why() -> None:
    async def play() -> None:
        with capture_logs() as logged:
            coordinator = Restarted(LivingActor())
            coordinator.may_begin.set()
            await coordinator._beginning
            assert coordinator._dispatcher is not None
            coordinator._dispatcher.feed(ApplicationFailed("MissingTopicError: topic 'lines' is gone"))
            await coordinator.stop()
        assert coordinator._state is ApplicationState.ERROR
        errors = [line for line in logged if line["log_level"] == "error" and "exc_info" not in line]  # no Ray here
        assert [line["error"] for line in errors] == ["MissingTopicError: topic 'lines' is gone"]
        assert [line["new"] for line in logged if line["event"] == "application state changed"][-1] == "ERROR"

    run(play())


@pytest.mark.parametrize("state", [ApplicationState.ERROR, ApplicationState.NOT_RUNNING])
def test_an_application_that_has_ended_stays_so_although_its_coordinator_is_restarted(
    state: ApplicationState, living: LivingActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = refuse(monkeypatch, MissingTopicError("it would start again"))

    async def play() -> None:
        ended = Restarted(LivingActor())
        ended._enter(state, "why" if state is ApplicationState.ERROR else None)
        await ended._ended.wait()
        ended._beginning.cancel()
        restarted = CoordinatorActor("app", SPEC)
        await asyncio.sleep(5)
        before, after = await ended.status(), await restarted.status()
        assert (after.state, after.error) == (before.state, before.error)
        assert (await asyncio.wait_for(restarted.stop(), 5)).state is state
        assert looks == []

    run(play())


def test_a_restarted_coordinator_that_cannot_begin_leaves_no_actor_at_work(
    living: LivingActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, BrokerUnreachableError("soon"), MissingTopicError("topic 'lines' is gone"))

    async def play() -> None:
        coordinator = CoordinatorActor("app", SPEC)
        await asyncio.wait_for(coordinator._ended.wait(), 60)
        status = await coordinator.status()
        assert (status.state, status.error) == (ApplicationState.ERROR, "MissingTopicError: topic 'lines' is gone")
        assert living.killed

    run(play())


def test_joined_topics_may_differ_for_a_moment_also_after_a_restart(
    living: LivingActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = refuse(monkeypatch, TopologyError("'x' has 3, 'y' has 2"))

    async def play() -> None:
        coordinator = CoordinatorActor("app", SPEC)
        await asyncio.wait_for(coordinator._ended.wait(), 120)
        assert looks[-1] - looks[0] >= ONE_AFTER_ANOTHER_S
        assert (await coordinator.status()).state is ApplicationState.ERROR

    run(play())


@pytest.mark.parametrize("starts_paused", [False, True])
def test_the_last_pause_or_resume_outlives_the_coordinator_and_its_initial_setting(
    starts_paused: bool, living: LivingActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, BrokerUnreachableError("not yet"))
    program = ApplicationSpec(COPY.build(), StreamsConfig.of({"application.id": "app"}), paused=starts_paused)
    spec: bytes = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]  # untyped in Ray

    async def play() -> None:
        first = CoordinatorActor("app", spec)
        await asyncio.sleep(1)
        assert (await first.status()).paused is starts_paused
        assert (await first.pause(not starts_paused)).paused is not starts_paused
        second = CoordinatorActor("app", spec)
        await asyncio.sleep(1)
        assert (await second.status()).paused is not starts_paused
        for each in (first, second):
            each._beginning.cancel()

    run(play())


def test_an_application_that_has_ended_is_not_paused(living: LivingActor, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, MissingTopicError("topic 'lines' is gone"))

    async def play() -> None:
        coordinator = CoordinatorActor("app", SPEC)
        await asyncio.wait_for(coordinator._ended.wait(), 60)
        status = await coordinator.pause(True)
        assert (status.state, status.paused) == (ApplicationState.ERROR, False)

    run(play())


def test_the_uncaught_exception_handler_hears_of_what_ends_the_coordinator_too(
    living: LivingActor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse(monkeypatch, MissingTopicError("topic 'lines' is gone"))
    heard = tmp_path / "heard"

    def handler(exception: BaseException) -> UncaughtExceptionResponse:
        heard.write_text(repr(exception))
        return UncaughtExceptionResponse.REPLACE_ACTOR

    program = ApplicationSpec(
        COPY.build(), StreamsConfig.of({"application.id": "app"}), uncaught_exception_handler=handler
    )
    spec: bytes = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]  # untyped in Ray

    async def play() -> None:
        coordinator = CoordinatorActor("app", spec)
        await asyncio.wait_for(coordinator._ended.wait(), 60)
        assert (await coordinator.status()).state is ApplicationState.ERROR, "whatever it answers"
        assert heard.read_text() == repr(MissingTopicError("topic 'lines' is gone"))

    run(play())
