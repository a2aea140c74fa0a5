"""Rows 14 and 17: processes that freeze, and continue when others have taken their place."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import psutil
import pytest

from penstock.kafka.local_broker.broker import free_port
from penstock.kafka.local_broker.node_files import HOST
from tests.faults.planted import Impatient, Planted, Watchful
from tests.faults.rig import Counting, called, coordinator, eventually, has_ended, lasts

MakeCounting = Callable[..., Counting]
SILENT_S = 12.0
"""Longer than the coordinator waits for the answer to one question, 10 s."""


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_row_14_the_coordinator_is_unresponsive_and_no_commit_is_lost(counting: MakeCounting, guarantee: str) -> None:
    it = counting(**{"processing.guarantee": guarantee, "consumer.session.timeout.ms": 30_000})
    before = [actor.pid for actor in it.actors()]
    frozen = coordinator()
    with it.fed():
        frozen.suspend()
        try:
            lasts(5)  # less than its session: the group knows nothing of it
        finally:
            frozen.resume()
        it.assert_continues()
    it.all_is_counted_once()
    assert [actor.pid for actor in it.actors()] == before, "actors were replaced"


def test_row_14_a_coordinator_that_is_unresponsive_for_good_is_ended_and_restarted(counting: MakeCounting) -> None:
    it = counting(Planted(Watchful(SILENT_S)))
    frozen = coordinator()
    with it.fed():
        frozen.suspend()
        eventually(lambda: has_ended(frozen), "it is ended", 90)
        it.assert_continues()
    it.all_is_counted_once()


def test_row_14_an_http_server_that_is_unresponsive_for_good_is_ended_and_restarted(counting: MakeCounting) -> None:
    it = counting(Planted(Watchful(SILENT_S)), **{"application.server": f"{HOST}:{free_port()}"})
    assert answers_http(it)
    (frozen,) = called("ray::HttpActor", psutil.Process())
    frozen.suspend()
    eventually(lambda: has_ended(frozen), "it is ended", 90)
    eventually(lambda: answers_http(it), "another answers", 90)


def answers_http(it: Counting) -> bool:
    try:
        return httpx.get(f"http://{it.settings['application.server']}/healthz", timeout=5).is_success
    except httpx.HTTPError:
        return False


def test_row_17_an_actor_that_was_replaced_while_it_was_unresponsive_writes_nothing_when_it_continues(
    counting: MakeCounting,
) -> None:
    it = counting(Planted(Impatient(SILENT_S)))
    victim = it.actors()[0]
    zombie = psutil.Process(victim.pid)
    with it.fed():
        zombie.suspend()
        try:
            eventually(lambda: victim.pid not in {actor.pid for actor in it.actors()}, "it is given up", 60)
            assert not has_ended(zombie), "it never wakes up: Ray kills what does not end by itself, after 5 s"
        finally:
            if not has_ended(zombie):
                zombie.resume()
        it.assert_continues()
    it.all_is_counted_once()
    eventually(lambda: has_ended(zombie), "the zombie has ended", 60)
