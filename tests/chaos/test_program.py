"""The program that comes with the harness, on the test driver: without faults its results are the closed form, and
missing, doubled and wrong results are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

import penstock as ps
from penstock.testing.chaos import Guarantee, numbered
from penstock.testing.chaos.numbered import EACH_MS, KEYS, PARTITIONS, WINDOW_MS, Numbered, Stamped, key, window_key

LONG = ps.Serdes.long()
BEGIN_MS = 1_700_000_000_000
ROUNDS = 12
Records = list[tuple[bytes, bytes | None]]


@dataclass
class Played:
    """The output of a driver, as if it had been read from topics."""

    guarantee: Guarantee
    topics: Mapping[str, Records]
    stores: Mapping[str, Mapping[str, Any]]

    def internal(self, name: str) -> str:
        return f"chaos-{name}"

    def read(self, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
        return iter(self.topics[topic])

    def rows(self, store: str) -> Mapping[str, Any]:
        return self.stores[store]


def program() -> Numbered:
    return Numbered(ROUNDS * 10, BEGIN_MS, keys=10)


@cache
def played() -> Played:
    it, raw = program(), ps.Serdes.bytes()
    written = (numbered.OUTPUT, numbered.WINDOWS_OUT, numbered.JOINED, numbered.LETTERS, "chaos-stamped-repartition")
    config = {"application.id": "chaos", **it.config}
    with ps.TopologyTestDriver(it.topology(), config) as driver:
        inputs = {name: driver.create_input_topic(name, raw, raw) for name in (numbered.INPUT, numbered.MARKS)}
        sent: dict[str, Records] = {name: [] for name in inputs}
        for record in [each for number in range(ROUNDS) for each in it.round(number)] + list(it.poison()):
            assert record.key is not None
            sent[record.topic].append((record.key, record.value))
            inputs[record.topic].pipe_input(record.key, record.value, record.timestamp)
        outputs: dict[str, Records] = {name: [] for name in written}
        for name, records in outputs.items():
            for found_key, value in driver.create_output_topic(name, raw, raw).read_key_values_to_list():
                assert found_key is not None
                records.append((found_key, value))
        stores = {
            name: {key: row.value for key, row in driver.get_timestamped_key_value_store(name).all()}
            for name in (numbered.COUNTS, numbered.TALLIES)
        }
    return Played(Guarantee.EXACTLY, sent | outputs, stores)


def test_without_faults_every_check_holds_and_nothing_is_repeated() -> None:
    for guarantee in Guarantee:
        it = program()
        assert list(it.check(replace(played(), guarantee=guarantee))) == []
        assert it.repeated == 0


def test_each_window_has_ten_numbers_and_the_last_what_is_left() -> None:
    windows = numbered.in_windows({"a": 12}, BEGIN_MS)
    assert windows == {window_key("a", BEGIN_MS): 10, window_key("a", BEGIN_MS + WINDOW_MS): 2}
    assert numbered.marked({"a": 12}) == {"a": {0, 10}}
    assert BEGIN_MS % WINDOW_MS == 0
    assert 10 * EACH_MS == WINDOW_MS


def changed(topic: str, change: Callable[[Records], Records]) -> Played:
    return replace(played(), topics={**played().topics, topic: change(list(played().topics[topic]))})


def last_of(name: bytes, records: Records) -> int:
    return max(number for number, record in enumerate(records) if record[0] == name)


def without_last(name: bytes) -> Callable[[Records], Records]:
    return lambda records: [record for number, record in enumerate(records) if number != last_of(name, records)]


def with_last_again(name: bytes) -> Callable[[Records], Records]:
    return lambda records: [*records, records[last_of(name, records)]]


K7 = b"k0007"
IN_K7 = window_key("k0007", BEGIN_MS).encode()


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize(
    ("topic", "name", "reported"),
    [
        (numbered.INPUT, K7, "the input itself is wrong: k0007: 11 instead of 12"),
        ("chaos-stamped-repartition", K7, "lost: k0007: 1 of 12, the first is 11"),
        (numbered.OUTPUT, K7, "the output is not the store: k0007: 11 instead of 12"),
        (numbered.WINDOWS_OUT, IN_K7, f"in windows, counted too little: {IN_K7.decode()}: 9 of 10"),
        (numbered.JOINED, K7, "not joined: k0007: 1 of 2, the first is 10"),
        (
            numbered.LETTERS,
            b"k0001",
            "dead letters do not match the bad records: k0001: 1 for 2 records",
        ),
    ],
)
def test_a_lost_record_of_any_topic_is_reported(topic: str, name: bytes, reported: str, guarantee: Guarantee) -> None:
    wrong = replace(changed(topic, without_last(name)), guarantee=guarantee)
    assert reported in list(program().check(wrong))


@pytest.mark.parametrize(
    ("topic", "name", "reported"),
    [
        ("chaos-stamped-repartition", K7, "what was processed is not the input: k0007: number 11 where 12 comes next"),
        (numbered.JOINED, K7, "joined again: k0007: number 10"),
        (
            numbered.LETTERS,
            b"k0001",
            "dead letters do not match the bad records: k0001: 3 for 2 records",
        ),
    ],
)
def test_a_record_that_came_again_is_reported_exactly_once(topic: str, name: bytes, reported: str) -> None:
    again = changed(topic, with_last_again(name))
    assert reported in list(program().check(again))


def test_a_join_that_came_again_is_no_mistake_at_least_once() -> None:
    again = replace(changed(numbered.JOINED, with_last_again(K7)), guarantee=Guarantee.AT_LEAST)
    assert list(program().check(again)) == []


def test_a_letter_that_came_again_is_no_mistake_at_least_once() -> None:
    again = replace(changed(numbered.LETTERS, with_last_again(b"k0001")), guarantee=Guarantee.AT_LEAST)
    assert list(program().check(again)) == []


@pytest.mark.parametrize("joined", [b"10 0", b"3 3", b"20 20"])
def test_a_number_that_met_another_mark_or_should_have_met_none_is_reported(joined: bytes) -> None:
    wrong = changed(numbered.JOINED, lambda records: [*records, (K7, joined)])
    number, mark = joined.decode().split()
    assert f"joined wrongly: k0007: number {number} with mark {mark}" in list(program().check(wrong))


def test_a_window_that_counts_too_much_is_reported_exactly_once_alone() -> None:
    wrong = changed(numbered.WINDOWS_OUT, lambda records: [*records, (IN_K7, LONG.serialize(11))])
    reported = f"windows counted otherwise than once: {IN_K7.decode()}: 11 instead of 10"
    assert list(program().check(wrong)) == [reported]
    assert list(program().check(replace(wrong, guarantee=Guarantee.AT_LEAST))) == []


def test_a_window_that_nobody_asked_for_is_reported() -> None:
    wrong = changed(numbered.WINDOWS_OUT, lambda records: [*records, (b"k0007@5", LONG.serialize(1))])
    assert "in windows, made up: k0007@5" in list(program().check(wrong))


def test_a_stamp_survives_a_round_trip() -> None:
    assert Stamped.of(str(Stamped(17, "3f2a9c1e"))) == Stamped(17, "3f2a9c1e")


def test_whole_rounds_of_all_keys_are_written() -> None:
    assert Numbered(500_000).rounds == 500
    assert Numbered(500_001).rounds == 501
    assert len(Numbered(500_000).expected) == KEYS
    assert set(Numbered(500_001).expected.values()) == {501}
    assert key(7) == "k0007"
    assert {record.partition for record in program().round(1)} == set(range(PARTITIONS))
