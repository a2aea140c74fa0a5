"""Actors that say nothing, over a real machine and dispatcher without Ray."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.cluster import dispatch
from tests.cluster.test_coordinator_actor import LivingActor, Restarted
from tests.cluster.test_coordinator_actor import restarted as restarted
from tests.cluster.test_scaling_watch import Application, play
from tests.cluster.virtual_time import run


def test_an_actor_that_does_not_answer_is_told_of_with_its_tasks_until_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "SILENT_S", 0.05)

    async def silent() -> None:
        return None

    async def story() -> None:
        app = Application()
        await app.begin(2)
        assert app.dispatcher.silent is None
        blocked: Any = app.dispatcher.handles["stream/1"]
        answers, blocked.status = blocked.status, silent
        async with asyncio.timeout(10):
            while (said := app.dispatcher.silent) is None or "stream/2" in said:
                await app.settle()
        mine = ", ".join(str(task) for task in sorted(blocked.tasks))
        assert said.startswith("stream/1 has not answered for 0 s")
        assert f"(its tasks: {mine})" in said
        assert "it is replaced after 300 s" in said
        blocked.status = answers
        await app.settle()
        assert app.dispatcher.silent is None

    play(story)


def test_the_status_says_it_as_what_the_application_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        await coordinator._beginning
        assert (await coordinator.status()).waiting is None
        said = "stream/1 has not answered for 40 s"
        monkeypatch.setattr(dispatch.Dispatcher, "silent", property(lambda _: said))
        assert (await coordinator.status()).waiting == said
        await coordinator.stop()

    run(story())
