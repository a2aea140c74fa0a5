"""Rows 12, 13, 15 and 16: faults of the network between the application and Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.cluster.read_side import ApplicationState
from penstock.testing.chaos.proxy import Flow
from tests.faults.rig import (
    SESSION_S,
    TRANSACTION_S,
    Counting,
    Kafka,
    commits_offsets,
    coordinator,
    ends_a_transaction,
    eventually,
    lasts,
    of_processes,
)

MakeCounting = Callable[..., Counting]


def test_row_12_an_actor_is_cut_off_for_less_than_its_transaction_lives(kafka: Kafka, counting: MakeCounting) -> None:
    it = counting()
    with it.fed():
        kafka.proxy.black_hole(of_processes([it.actors()[0].pid]))
        lasts(TRANSACTION_S / 3)
        kafka.proxy.heal()
        it.assert_continues()
    it.all_is_counted_once()


def test_row_12_actors_are_cut_off_for_longer_than_its_transaction_lives(kafka: Kafka, counting: MakeCounting) -> None:
    it = counting()
    actors = {actor.actor_id for actor in it.actors()}
    with it.fed():
        opened = kafka.proxy.trap(commits_offsets, passes=False)
        assert opened.wait(30), "no transaction was begun"
        kafka.proxy.black_hole(of_processes([actor.pid for actor in it.actors()]))
        lasts(TRANSACTION_S * 3)
        kafka.proxy.heal()
        eventually(lambda: it.aborted() > 0, "the actor hears that its transaction was aborted")
        it.assert_continues()
    it.all_is_counted_once()
    assert {actor.actor_id for actor in it.actors()} == actors, "it was replaced"


def test_row_12_connections_are_reset_again_and_again(kafka: Kafka, counting: MakeCounting) -> None:
    it = counting()
    with it.fed():
        dropped = 0
        for _ in range(10):
            dropped += kafka.proxy.reset(of_processes([actor.pid for actor in it.actors()]))
            lasts(0.5)
        it.assert_continues()
    assert dropped > 10
    it.all_is_counted_once()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_row_13_the_coordinator_alone_is_cut_off_for_longer_than_its_session(
    kafka: Kafka, counting: MakeCounting, guarantee: str
) -> None:
    it = counting(**{"processing.guarantee": guarantee})
    actors = {actor.pid for actor in it.actors()}
    with it.fed():
        kafka.proxy.black_hole(of_processes([coordinator().pid]))
        eventually(lambda: it.app.status().state is ApplicationState.REBALANCING, "the session is lost")
        lasts(SESSION_S)
        kafka.proxy.heal()
        eventually(lambda: it.app.status().state is ApplicationState.RUNNING, "it is in the group again", 120)
        it.assert_continues()
    assert {actor.pid for actor in it.actors()} == actors, "actors were replaced"
    if guarantee == "exactly_once_v2":
        it.all_is_counted_once()
    else:
        it.nothing_is_lost()


@pytest.mark.parametrize(
    ("up", "down"),
    [
        pytest.param(Flow(delay_s=0.05, jitter_s=0.1), Flow(delay_s=0.05, jitter_s=0.1), id="late"),
        pytest.param(Flow(), Flow(delay_s=0.5), id="late one way"),
        pytest.param(Flow(bytes_per_s=200_000), Flow(bytes_per_s=200_000), id="narrow"),
        pytest.param(Flow(slice_bytes=50), Flow(slice_bytes=50), id="in pieces"),
    ],
)
def test_row_15_a_slow_network_makes_it_slow_and_nothing_else(
    kafka: Kafka, counting: MakeCounting, up: Flow, down: Flow
) -> None:
    it = counting()
    with it.fed():
        kafka.proxy.shape(up, down)
        it.assert_continues(400, timeout_s=180)
    it.all_is_counted_once(timeout_s=180)
    kafka.proxy.heal()


@pytest.mark.parametrize("lost", ["the request", "the answer"])
def test_row_16_the_end_of_a_transaction_comes_late(kafka: Kafka, counting: MakeCounting, lost: str) -> None:
    it = counting()
    with it.fed():
        held = kafka.proxy.trap(ends_a_transaction, passes=lost == "the answer")
        assert held.wait(30), "no transaction was ended"
        lasts(TRANSACTION_S * 2)
        kafka.proxy.heal()
        it.assert_continues()
    it.all_is_counted_once()
