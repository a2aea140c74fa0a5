"""Row 28: records that take long, or a sink that does."""

from __future__ import annotations

import os
from collections.abc import Callable

import psutil

from penstock.cluster.read_side import ApplicationState
from penstock.testing.chaos.proxy import Flow
from tests.elastic.cluster import PARTITIONS, taking
from tests.faults.rig import SESSION_S, Counting, Kafka, lasts, of_processes

MakeCounting = Callable[..., Counting]
RECORD_BYTES = 5_000
BACKLOG = 40_000
MAY_GROW_BYTES = 120_000_000


def taken(it: Counting) -> int:
    """Returns the memory of its actors, in bytes."""
    return sum(psutil.Process(actor.pid).memory_info().rss for actor in it.actors())


def pile_up(it: Counting) -> None:
    """Sends records that nobody will ever count: far more than an actor may keep."""
    producer = it.clients.producer()
    value = os.urandom(RECORD_BYTES // 2).hex().encode()
    for number in range(BACKLOG):
        producer.send(it.input, b"ballast", value, 1_000, partition=number % PARTITIONS)
    assert producer.flush(60)
    producer.close()


def test_row_28_what_is_slow_piles_up_at_the_broker_and_nobody_leaves_the_group(counting: MakeCounting) -> None:
    it = counting(taking(0.01))
    before, actors = taken(it), {actor.pid for actor in it.actors()}
    pile_up(it)
    for _ in range(4):
        lasts(SESSION_S / 2)
        assert it.app.status().state is ApplicationState.RUNNING
        assert taken(it) - before < MAY_GROW_BYTES
    assert sum(task.lag or 0 for task in it.app.status().tasks) > BACKLOG // 10, "it was not slow"
    assert {actor.pid for actor in it.actors()} == actors, "actors were replaced"


def test_row_28_a_slow_sink_holds_up_what_is_read_and_nothing_is_lost(kafka: Kafka, counting: MakeCounting) -> None:
    it = counting()
    actors = {actor.pid for actor in it.actors()}
    with it.fed():
        kafka.proxy.shape(up=Flow(bytes_per_s=500), which=of_processes([actor.pid for actor in it.actors()]))
        sent, counted = sum(it.sent.values()), it.processed()
        lasts(SESSION_S * 2)
        assert (it.processed() - counted) * 2 < sum(it.sent.values()) - sent, "it was not slow"
        # Transactions that do not come through in time are begun again: tasks may restore meanwhile.
        assert it.app.status().state in (ApplicationState.RUNNING, ApplicationState.REBALANCING)
        kafka.proxy.heal()
        it.assert_continues()
    it.all_is_counted_once()
    assert {actor.pid for actor in it.actors()} == actors, "actors were replaced"
