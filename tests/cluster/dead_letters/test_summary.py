"""Dead letters are selected and counted; similar messages are one, and memory is bounded."""

from __future__ import annotations

import random

import pytest

from penstock.cluster.dead_letters.letters import Filter
from penstock.cluster.dead_letters.summary import FOREIGN, MANY, OTHERS, Summary, without_numbers, without_quotes
from penstock.common.dead_letters import Replayed, replayed_header
from tests.cluster.dead_letters.making import error_headers, letter


@pytest.mark.parametrize(
    ("message", "similar"),
    [
        ("Size of data received by LongDeserializer is not 8", "Size of data received by LongDeserializer is not #"),
        ("order 5f0c2a1e-0b7d-4c38-9d39-0a1b2c3d4e5f is late", "order # is late"),
        ("at 2026-11-27T10:00:00.123Z", "at #T#Z"),
        ("bad id 0xdeadBEEF, deadbeef12", "bad id #, #"),
        ("a defaced facade", "a defaced facade"),
        ("first line 1\nsecond", "first line #"),
        (None, None),
    ],
)
def test_messages_that_differ_in_numbers_are_similar(message: str | None, similar: str | None) -> None:
    assert without_numbers(message) == similar


def test_quoted_parts_are_left_out_of_similar_messages_if_there_are_many() -> None:
    assert without_quotes("field 'age' of \"x\" is [1, 2]") == "field … of … is …"


def test_letters_are_counted_by_topic_exception_and_message() -> None:
    summary = Summary()
    summary.add(letter((0, 1), error_headers(message="no 1"), timestamp=20), True)
    summary.add(letter((1, 5), error_headers(message="no 2"), timestamp=30), False)
    summary.add(letter((0, 2), error_headers(message="no 3"), timestamp=10), False)
    summary.add(letter((0, 3), error_headers(topic="other", message="no 3")), False)
    summary.add(letter((0, 4), []), False)
    [(cause, counted), *others] = summary.counts()
    assert cause == ("orders", "builtins.ValueError", "no #")
    assert (counted.letters, counted.first_ms, counted.last_ms) == (3, 10, 30)
    assert (counted.replayed, counted.again, counted.example) == (1, 0, "1@5")
    assert {(each.topic, each.exception) for each, _ in others} == {(None, FOREIGN), ("other", "builtins.ValueError")}
    assert summary.letters == 5
    assert [cause.message for cause, _ in others if cause.topic] == ["no 3"]


def test_letters_of_records_that_were_replayed_before_are_counted_with_their_tries() -> None:
    summary = Summary()
    for count in (1, 3, 2):
        summary.add(letter(headers=[replayed_header(Replayed("orders-dlq", 0, 1, count)), *error_headers()]), False)
    summary.add(letter(), False)
    counted = sum((each.again for _, each in summary.counts()), 0)
    assert counted == 3
    assert max(each.most_replays for _, each in summary.counts()) == 3


def test_a_summary_of_very_many_messages_stays_small_and_loses_no_letter() -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    summary = Summary()
    for number in range(5000):
        message = "".join(rng.choices("ghijklmn", k=12))
        message = f"cannot read '{message}'" if number % 2 else message
        exception = "Quoted" if number % 2 else "Wild"
        summary.add(letter((0, number), error_headers(exception=exception, message=message)), False)
    found = {cause: counted.letters for cause, counted in summary.counts()}
    assert found == {
        ("orders", "Quoted", "cannot read …"): 2500,
        ("orders", "Wild", MANY): 2500,
    }


def test_a_summary_of_very_many_exceptions_counts_the_others_together() -> None:
    summary = Summary()
    for number in range(3000):
        summary.add(letter(headers=error_headers(exception=f"E{number}")), False)
    found = summary.counts()
    assert sum(counted.letters for _, counted in found) == 3000
    assert (found[0][0].exception, found[0][1].letters) == (OTHERS, 1000)


def test_a_filter_selects_by_each_of_its_fields() -> None:
    java = letter(headers=error_headers("orders", 2, exception="org.example.Outer$BadException", message="no price"))
    assert Filter().matches(java)
    for name in ("org.example.Outer$BadException", "Outer$BadException", "BadException"):
        assert Filter(exceptions=("Other", name)).matches(java)
    assert not Filter(exceptions=("Bad",)).matches(java)
    assert Filter(topics=("orders",)).matches(java)
    assert not Filter(topics=("others",)).matches(java)
    assert Filter(partitions=(1, 2)).matches(java)
    assert not Filter(partitions=(1,)).matches(java)
    assert Filter(since=1000, until=1001).matches(java)
    assert not Filter(since=1001).matches(java)
    assert not Filter(until=1000).matches(java)
    assert not Filter(topics=("orders",), partitions=(1,)).matches(java)


@pytest.mark.parametrize("text", ["no price", "line 1", "kéy", "välue"])
def test_a_filter_finds_text_in_message_trace_key_and_value(text: str) -> None:
    found = letter(headers=error_headers(message="no price"), key="kéy".encode(), value=b"\xff" + "välue".encode())
    assert Filter(contains=text).matches(found)
    assert not Filter(contains=text + "!").matches(found)


def test_a_filter_by_the_error_selects_no_foreign_record() -> None:
    foreign = letter(headers=[("a", b"1")])
    assert Filter(contains="v").matches(foreign)
    assert not any(f.matches(foreign) for f in (Filter(exceptions=("E",)), Filter(topics=("orders",))))
    assert not Filter(partitions=(0,)).matches(foreign)
