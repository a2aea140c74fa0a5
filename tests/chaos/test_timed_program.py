"""The program of event time, on the test driver: without faults its results are the closed form, and missing,
doubled and wrong results are reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

import penstock as ps
from penstock.testing.chaos import Guarantee, timed
from penstock.testing.chaos.timed import Timed
from tests.chaos.test_program import BEGIN_MS, Played, Records, last_of, with_last_again, without_last

LONG = ps.Serdes.long()
ROUNDS = 880
END_MS = BEGIN_MS + ROUNDS * timed.EACH_MS


def program() -> Timed:
    return Timed(ROUNDS, BEGIN_MS, keys=3)


@cache
def played() -> Played:
    it, raw = program(), ps.Serdes.bytes()
    with ps.TopologyTestDriver(it.topology(), {"application.id": "chaos"}) as driver:
        inputs = {name: driver.create_input_topic(name, raw, raw) for name in (timed.EVENTS, timed.RATES)}
        topics: dict[str, Records] = {name: [] for name in it.topics}
        # The driver has one stream time for all tasks, so no rate may come before its time.
        records = [each for number in range(ROUNDS) for each in it.round(number) if each.timestamp < END_MS]
        for record in sorted(records, key=lambda each: (each.timestamp, each.topic == timed.EVENTS)):
            assert record.key is not None
            topics[record.topic].append((record.key, record.value))
            inputs[record.topic].pipe_input(record.key, record.value, record.timestamp)
        for name in it.topics.keys() - inputs.keys():
            for key, value in driver.create_output_topic(name, raw, raw).read_key_values_to_list():
                assert key is not None
                topics[name].append((key, value))
        stores = {
            name: {key: row.value for key, row in driver.get_timestamped_key_value_store(name).all()}
            for name in (timed.COUNTS, timed.VISITS)
        }
    return Played(Guarantee.EXACTLY, topics, stores)


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_without_faults_every_check_holds(guarantee: Guarantee) -> None:
    assert list(program().check(replace(played(), guarantee=guarantee))) == []


def test_at_the_end_some_rows_have_expired_and_some_have_not() -> None:
    names = {f"k{number:04}" for number in range(timed.KEYS)}
    lasts = {list(Timed(ROUNDS, BEGIN_MS).visits(name))[-1] is None for name in names}
    assert lasts == {True, False}


def changed(topic: str, change: Callable[[Records], Records]) -> Played:
    return replace(played(), topics={**played().topics, topic: change(list(played().topics[topic]))})


def window(first: int, numbers: int) -> bytes:
    begin_ms = BEGIN_MS + first * timed.EACH_MS
    return f"k0001@{begin_ms}-{begin_ms + numbers * timed.EACH_MS}".encode()


K1 = b"k0001"
LOST = [
    (timed.EVENTS, K1, "the input itself is wrong: k0001: 879 instead of 880"),
    (timed.WINDOWS_OUT, window(860, 10), f"windows: counted too little: {window(860, 10).decode()}: None of 10"),
    (timed.RATED_OUT, K1, "rated: lost: ('k0001', '879 87')"),
    (timed.PAIRS_OUT, K1, "pairs: lost: ('k0001', '875 875')"),
    (timed.SESSIONS_OUT, window(839, 19), f"sessions: counted too little: {window(839, 19).decode()}: None of 20"),
]


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize(("topic", "name", "reported"), LOST)
def test_a_lost_record_of_any_topic_is_reported(topic: str, name: bytes, reported: str, guarantee: Guarantee) -> None:
    lost = without_last(name)
    wrong = list(program().check(replace(changed(topic, lost), guarantee=guarantee)))
    assert reported in wrong


@pytest.mark.parametrize("topic", [timed.WINDOWS_OUT, timed.PAIRS_OUT, timed.RATED_OUT, timed.VISITS_OUT])
def test_a_result_that_came_again_is_reported_exactly_once_alone(topic: str) -> None:
    name = window(860, 10) if topic == timed.WINDOWS_OUT else K1
    again = changed(topic, with_last_again(name))
    assert list(program().check(again))
    assert list(program().check(replace(again, guarantee=Guarantee.AT_LEAST))) == []


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_rate_of_another_time_is_reported(guarantee: Guarantee) -> None:
    def with_old_rate(records: Records) -> Records:
        records[last_of(K1, records)] = (K1, b"879 86")
        return records

    wrong = list(program().check(replace(changed(timed.RATED_OUT, with_old_rate), guarantee=guarantee)))
    assert "rated: made up: ('k0001', '879 86')" in wrong


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_match_that_is_denied_afterwards_is_reported(guarantee: Guarantee) -> None:
    denied = timed.pair(875, None)
    pairs = changed(timed.PAIRS_OUT, lambda records: [*records, (K1, denied.encode())])
    assert list(program().check(replace(pairs, guarantee=guarantee))) == [f"pairs: made up: ('k0001', '{denied}')"]


def test_a_window_counted_low_or_twice_is_reported() -> None:
    def again_with(count: int) -> Callable[[Records], Records]:
        return lambda records: [*records, (window(860, 10), LONG.serialize(count))]

    (lower,) = program().check(changed(timed.WINDOWS_OUT, again_with(9)))
    assert lower.startswith("windows: made up: ")
    assert list(program().check(changed(timed.WINDOWS_OUT, again_with(10))))


def test_a_part_of_a_session_that_was_not_deleted_is_reported_exactly_once_alone() -> None:
    def with_session(first: int, numbers: int) -> Played:
        return changed(timed.SESSIONS_OUT, lambda records: [*records, (window(first, numbers), LONG.serialize(1))])

    part, beyond = with_session(839, 9), with_session(839, 20)
    assert any("sessions: made up: " in sentence for sentence in program().check(part))
    assert list(program().check(replace(part, guarantee=Guarantee.AT_LEAST))) == []
    assert list(program().check(replace(beyond, guarantee=Guarantee.AT_LEAST)))


def test_a_row_that_did_not_expire_is_reported() -> None:
    stores = {**played().stores, timed.VISITS: {**played().stores[timed.VISITS], "k0000": 20}}
    expired = replace(played(), stores=stores)
    assert any("visits" in sentence for sentence in program().check(expired))
