"""Each check passes what is right, and finds what was planted."""

from __future__ import annotations

import pytest

from penstock.common.ids import TopicPartition
from penstock.testing.chaos import checks
from penstock.testing.chaos.numbered import Stamped, Tally, follow

TRUTH = {"a": 4, "b": 2}
INPUT = [("a", 0), ("b", 0), ("a", 1), ("a", 2), ("b", 1), ("a", 3)]
ONCE = [(key, Stamped(number, "first")) for key, number in INPUT]
AGAIN = [*ONCE[:4], *((key, Stamped(number, "second")) for key, number in INPUT[2:])]
"""The first attempt came to the fourth record and had committed two."""


def without(records: list[tuple[str, Stamped]], key: str, number: int) -> list[tuple[str, Stamped]]:
    return [record for record in records if (record[0], record[1].number) != (key, number)]


def test_an_input_as_it_was_meant_is_right() -> None:
    assert checks.numbered(INPUT, TRUTH) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (INPUT[:-1], "a: 3 instead of 4"),
        ([*INPUT, ("a", 3)], "a: number 3 where 4 comes next"),
        ([INPUT[2], INPUT[0], *INPUT[1:2], *INPUT[3:]], "a: number 1 where 0 comes next"),
        ([*INPUT, ("c", 0)], "c: number 0 where None comes next"),
    ],
)
def test_an_input_that_lacks_repeats_or_reorders_is_reported(wrong: list[tuple[str, int]], message: str) -> None:
    assert any(message in sentence for sentence in checks.numbered(wrong, TRUTH))


@pytest.mark.parametrize("records", [ONCE, AGAIN])
def test_records_processed_once_or_again_are_complete_and_in_order(records: list[tuple[str, Stamped]]) -> None:
    assert checks.complete(records, TRUTH) == []
    assert checks.in_order(records) == []


def test_a_record_that_no_attempt_processed_is_lost() -> None:
    assert checks.complete(without(AGAIN, "a", 2), TRUTH) == ["lost: a: 1 of 4, the first is 2"]
    assert checks.complete([record for record in ONCE if record[0] != "b"], TRUTH) == [
        "lost: b: 2 of 2, the first is 0"
    ]


@pytest.mark.parametrize("extra", [("a", Stamped(4, "first")), ("c", Stamped(0, "first"))])
def test_a_record_that_nobody_sent_is_reported(extra: tuple[str, Stamped]) -> None:
    (sentence,) = checks.complete([*ONCE, extra], TRUTH)
    assert sentence == f"never sent, yet processed: {extra[0]}: number {extra[1].number}"


def test_another_attempt_may_begin_anywhere_and_may_write_in_between() -> None:
    zombie = [("a", Stamped(2, "zombie")), ("a", Stamped(3, "zombie"))]
    assert checks.in_order([*ONCE[:3], zombie[0], *ONCE[3:], zombie[1]]) == []


@pytest.mark.parametrize("numbers", [(0, 2), (0, 1, 1), (1, 0), (0, 1, 0)])
def test_a_gap_a_repeat_and_a_step_back_within_an_attempt_are_out_of_order(numbers: tuple[int, ...]) -> None:
    (sentence,) = checks.in_order([("a", Stamped(number, "first")) for number in numbers])
    assert sentence.startswith("out of order within an attempt: a: ")


def tallies_of(records: list[tuple[str, Stamped]]) -> dict[str, Tally]:
    found: dict[str, Tally] = {}
    for key, stamped in records:
        found[key] = follow(str(stamped), found.get(key, Tally(next=0, repeats=0, gaps=0)))
    return found


def test_a_tally_counts_repeats_and_is_content() -> None:
    assert tallies_of(ONCE)["a"] == {"next": 4, "repeats": 0, "gaps": 0}
    assert tallies_of(AGAIN)["a"] == {"next": 4, "repeats": 2, "gaps": 0}
    assert checks.followed(tallies_of(AGAIN), TRUTH) == []


def test_state_that_was_rolled_back_behind_its_offsets_shows_as_a_gap() -> None:
    old = tallies_of(ONCE[:1])
    old["a"] = follow(str(Stamped(3, "second")), old["a"])
    assert checks.followed(tallies_of(ONCE) | old, TRUTH) == ["state older than its offsets: a: 2 missing"]


def test_state_that_ends_early_or_is_not_there_is_reported() -> None:
    (sentence,) = checks.followed(tallies_of(ONCE[:-1]), TRUTH)
    assert sentence.endswith("a: 3 instead of 4")
    (sentence,) = checks.followed({}, TRUTH)
    assert sentence.endswith("a: None instead of 4; b: None instead of 2")


def test_counts_may_be_higher_than_the_truth_but_not_lower() -> None:
    assert checks.counted({"a": 4, "b": 3}, TRUTH) == []
    assert checks.counted({"a": 3, "b": 2}, TRUTH) == ["counted too little: a: 3 of 4"]
    assert checks.counted({"b": 2}, TRUTH) == ["counted too little: a: None of 4"]
    assert checks.counted({"a": 4, "b": 2, "c": 1}, TRUTH) == ["made up: c"]


def test_views_that_differ_in_a_value_or_a_key_are_reported() -> None:
    assert checks.equal("differs", {"a": 1}, {"a": 1}) == []
    assert checks.equal("differs", {"a": 1}, {"a": 2}) == ["differs: a: 1 instead of 2"]
    assert checks.equal("differs", {}, {"a": 2}) == ["differs: a: None instead of 2"]
    assert checks.equal("differs", {"a": 2}, {}) == ["differs: a: 2 instead of None"]


def test_an_open_transaction_is_reported_and_a_write_between_the_two_questions_is_not() -> None:
    at = TopicPartition("out", 0)
    assert checks.no_transaction_is_open({at: 7}, {at: 7}) == []
    assert checks.no_transaction_is_open({at: 8}, {at: 7}) == []
    assert checks.no_transaction_is_open({at: 5}, {at: 7}) == [f"a transaction is open: {at}: 5 of 7"]


def test_of_many_cases_three_and_their_number_are_reported() -> None:
    truth = {f"k{number}": 1 for number in range(1000)}
    (sentence,) = checks.counted({}, truth)
    assert sentence.startswith("counted too little: k0: None of 1; k1: None of 1; k2: None of 1; and 997 more")
