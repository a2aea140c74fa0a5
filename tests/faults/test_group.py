"""Rows 19 to 22: the consumer group, transactions and what Kafka forgets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from penstock.cluster.read_side import ApplicationState
from tests.faults.planted import once, sleep_for
from tests.faults.rig import (
    TRANSACTION_S,
    Counting,
    Kafka,
    coordinator,
    ends_a_transaction,
    eventually,
    kafka_behind_a_proxy,
    lasts,
    transactional_ids,
)
from tests.waiting import PATIENCE_S

MakeCounting = Callable[..., Counting]
STORM_S = 30.0


@contextmanager
def strangers(kafka: Kafka, it: Counting, rotate_s: float) -> Iterator[list[int]]:
    """Lets other members join and leave the group in turn: they take partitions, and do nothing. Yields the number of
    partitions of each of their assignments."""
    ending = threading.Event()
    given: list[int] = []

    def member() -> Consumer:
        settings = {
            "bootstrap.servers": kafka.address, "group.id": it.application_id, "enable.auto.commit": False,
            "partition.assignment.strategy": "range", "session.timeout.ms": 6000,
        }  # fmt: skip
        consumer = Consumer(settings)
        consumer.subscribe([it.input], on_assign=lambda _, partitions: given.append(len(partitions)))
        return consumer

    def rotate() -> None:
        members = [member()]
        until_s = rotate_s
        while not ending.is_set():
            for each in members:
                each.poll(0.05)
            until_s -= 0.05 * len(members)
            if until_s <= 0:
                until_s = rotate_s
                members.append(member())
                if len(members) > 2:
                    members.pop(0).close()
        for each in members:
            each.close()

    thread = threading.Thread(target=rotate)
    thread.start()
    try:
        yield given
    finally:
        ending.set()
        thread.join()


def test_row_19_the_group_rebalances_between_the_offsets_of_a_transaction_and_its_end(
    kafka: Kafka, counting: MakeCounting
) -> None:
    it = counting()
    with it.fed():
        held = kafka.proxy.trap(ends_a_transaction, passes=False)
        assert held.wait(30), "no transaction was ended"
        with strangers(kafka, it, rotate_s=60):
            eventually(lambda: len(it.app.status().placement) < 8, "a stranger has partitions")
            kafka.proxy.heal()
            lasts(2)
        it.assert_continues()
    it.all_is_counted_once()


def test_row_20_a_storm_of_rebalances(kafka: Kafka, counting: MakeCounting) -> None:
    it = counting()
    process = psutil.Process(coordinator().pid)
    files = process.num_fds()
    before = it.processed()
    with it.fed():
        with strangers(kafka, it, rotate_s=3) as given:
            lasts(STORM_S)
            assert len([many for many in given if many]) >= 5, f"there was no storm: {given}"
            assert it.processed() > before, "nothing was counted in all the storm"
        eventually(lambda: it.app.status().state is ApplicationState.RUNNING, "it has come to rest", 60)
        it.assert_continues()
    it.all_is_counted_once()
    assert process.is_running()
    eventually(lambda: process.num_fds() < files + 20, "what it opened in the storm is closed again")


def test_row_21_a_record_takes_longer_than_its_transaction_lives(
    counting: MakeCounting, tmp_path_factory: pytest.TempPathFactory
) -> None:
    armed = tmp_path_factory.mktemp("armed")
    it = counting(once(armed, sleep_for(TRANSACTION_S * 2)), **{"commit.interval.ms": 2_000})
    with it.fed():
        # A record that is the first of its transaction holds up none that the broker knows: so two, while some is open.
        # A count is seen right after a commit, when no transaction is open.
        eventually(lambda: len(it.open_at()) > 1, "transactions are open")
        for each in ("one", "two"):
            (armed / each).touch()
        eventually(lambda: not any(armed.iterdir()), "a record takes long")
        eventually(lambda: it.aborted() > 0, "the transaction is given up, and the metric says so")
        it.assert_continues()
    it.all_is_counted_once()


def test_row_22_the_broker_forgets_a_producer_that_has_written_nothing_for_long(
    tmp_path: Path, topic_name: Callable[[str], str], ray_cluster: None
) -> None:
    forgetful = {
        "transactional.id.expiration.ms": "4000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
        "producer.id.expiration.ms": "4000",
        "producer.id.expiration.check.interval.ms": "1000",
    }
    with kafka_behind_a_proxy(tmp_path, forgetful) as kafka:
        it = Counting(kafka, topic_name("row"), tmp_path / "state")
        try:
            it.start()
            actors = {actor.pid for actor in it.actors()}
            assert transactional_ids(kafka.address)
            eventually(lambda: not any(transactional_ids(kafka.address).values()), "the ids are forgotten")
            it.send(500)
            it.all_is_counted_once()
            assert {actor.pid for actor in it.actors()} == actors, "actors were replaced"
        finally:
            it.app.close()


def test_row_22_a_source_whose_committed_offsets_are_gone_is_read_by_its_reset_policy(
    kafka: Kafka, counting: MakeCounting
) -> None:
    it = counting()
    it.send(400)
    it.all_is_counted_once()
    it.app.close()
    admin = AdminClient({"bootstrap.servers": kafka.address})
    eventually(lambda: deleted(admin, it.application_id), "the group is empty, and forgotten")
    again = it.another()
    again.start()
    again.wait_until_running(PATIENCE_S)
    eventually(lambda: it.processed() == 2 * sum(it.sent.values()), "earliest: all is processed again, none is skipped")
    again.close()


def deleted(admin: AdminClient, group: str) -> bool:
    [done] = admin.delete_consumer_groups([group]).values()
    return done.exception(30) is None
