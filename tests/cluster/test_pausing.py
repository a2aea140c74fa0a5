"""The coordinator's part in a pause."""

from __future__ import annotations

import asyncio

import structlog

from penstock.cluster.coordinator_shell.pausing import Pausing
from penstock.common.measures import WINDOW_S


async def _keep(paused: bool) -> None: ...


def test_an_application_has_just_resumed_while_reported_shares_cover_the_pause() -> None:
    now = [100.0]
    pausing = Pausing(_keep, structlog.stdlib.get_logger(), lambda: now[0])

    def become(paused: bool) -> bool:
        asyncio.run(pausing.become(paused, list))
        return pausing.has_just_resumed

    assert not become(False), "it was not paused"
    assert not become(True)
    assert become(False)
    now[0] += WINDOW_S
    assert become(False), "resumed again, which changes nothing"
    now[0] += 10.0
    assert not pausing.has_just_resumed
