"""A real broker is away for longer than a session, while an application of two actors on Ray works."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock as ps
from tests.cluster.settled import until_settled
from tests.faults.rig import Counting, Kafka, kafka_behind_a_proxy, lasts

SESSION_S = 2.0
AWAY_S = 6.0
"""Longer than a session, and than a transaction may last (``TRANSACTION_S``)."""
RESUMES_S = 10.0
"""5 s are promised; other tests run beside this one. A commit that librdkafka never ends takes 15 s."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    shortest = {"group.min.session.timeout.ms": str(int(SESSION_S * 1000))}
    with kafka_behind_a_proxy(tmp_path_factory.mktemp("outage"), shortest) as it:
        yield it


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once_v2"])
@pytest.mark.submission
def test_work_resumes_by_itself_and_no_actor_ends(
    guarantee: str, kafka: Kafka, topic_name: Callable[[str], str], tmp_path: Path, ray_cluster: None
) -> None:
    settings = {
        "processing.guarantee": guarantee,
        "consumer.session.timeout.ms": int(SESSION_S * 1000),
        "consumer.heartbeat.interval.ms": 500,
    }
    it = Counting(kafka, topic_name("outage"), tmp_path / "state", **settings)
    states: list[ps.ApplicationState] = []
    it.app.set_state_listener(lambda new, old: states.append(new))
    try:
        it.start()
        until_settled(it.app)
        before = [actor.pid for actor in it.actors()]
        with it.fed():
            it.assert_continues()
            kafka.proxy.cut()
            lasts(AWAY_S)
            kafka.proxy.heal()
            back_s = time.monotonic()
            it.assert_continues(100, timeout_s=RESUMES_S)
            print(f"{guarantee}: resumed after {time.monotonic() - back_s:.1f} s")
        if guarantee == "exactly_once_v2":
            it.all_is_counted_once(60)
        else:
            it.nothing_is_lost(60)
        assert [actor.pid for actor in it.actors()] == before
        assert not {ps.ApplicationState.ERROR, ps.ApplicationState.PENDING_ERROR} & set(states)
    finally:
        kafka.proxy.heal()
        it.app.close()
