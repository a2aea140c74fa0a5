"""The actors that are ended because they do not carry out an assignment. The clock is the test's, or virtual."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from penstock.actors.orders import Order
from penstock.actors.status import ActorStatus
from penstock.cluster.environment import RELEASE_S, ActorHandle, ActorLostError
from penstock.cluster.watchers.overdue import OverdueOrders, stopped
from tests.cluster.virtual_time import run


class Play:
    """Reports of one actor, each half second."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.orders = OverdueOrders(lambda: self.now_s)

    def reports(self, for_s: float, waits: bool) -> str | None:
        """The first reason to end the actor within ``for_s``."""
        until_s = self.now_s + for_s
        while self.now_s < until_s:
            self.now_s += 0.5
            status = ActorStatus("stream/1", "node", 1, 1, (), waits=waits)
            if (reason := self.orders.reported(status)) is not None:
                return reason
        return None


def test_an_actor_that_works_on_an_assignment_for_too_long_is_ended() -> None:
    play = Play()
    play.orders.assignment_sent("stream/1", 1)
    assert play.reports(RELEASE_S - 1, waits=False) is None
    reason = play.reports(1, waits=False)
    assert reason is not None
    assert "it has not applied its assignment within 120 s although it waits for nothing" in reason


def test_an_actor_that_waits_is_never_ended() -> None:
    play = Play()
    play.orders.assignment_sent("stream/1", 1)
    assert play.reports(100 * RELEASE_S, waits=True) is None
    assert play.reports(RELEASE_S - 1, waits=False) is None


def test_time_without_a_report_does_not_count() -> None:
    play = Play()
    play.orders.assignment_sent("stream/1", 1)
    assert play.reports(RELEASE_S - 1, waits=False) is None
    play.now_s += 200  # it works on one record
    assert play.reports(RELEASE_S - 1, waits=False) is None


def test_an_actor_that_has_confirmed_may_take_any_time() -> None:
    play = Play()
    play.orders.assignment_sent("stream/1", 1)
    play.orders.carried_out("stream/1", 1)
    assert play.reports(10 * RELEASE_S, waits=False) is None


def test_the_confirmation_of_an_earlier_assignment_does_not_confirm_a_later_one() -> None:
    play = Play()
    play.orders.assignment_sent("stream/1", 1)
    play.orders.assignment_sent("stream/1", 2)
    play.orders.carried_out("stream/1", 1)
    assert play.reports(RELEASE_S, waits=False) is not None
    play.orders.carried_out("stream/1", 2)
    assert play.reports(10 * RELEASE_S, waits=False) is None


class Hanging:
    async def insist(self, order: Order) -> bool:
        await asyncio.sleep(1_000_000)
        return False


def test_an_actor_that_must_stop_has_a_limit() -> None:
    with pytest.raises(ActorLostError, match="it has not stopped within 120 s"):
        run(stopped(cast("ActorHandle", Hanging())))
