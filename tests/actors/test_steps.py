"""Waits of an actor, and the lines that it logs of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.actors.steps import Steps, retry_while_unavailable
from penstock.common.errors import BrokerUnreachableError, StateStoreLockedError, StreamsError
from penstock.kafka.contracts import UnknownTopicError
from tests.actors.rig import ManualClock

LOCKED = StateStoreLockedError("the stores of 0_1 are open elsewhere")
UNKNOWN = UnknownTopicError("cannot ask for offsets: Local: Unknown partition (_UNKNOWN_PARTITION)")
AWAY = BrokerUnreachableError("no broker answers")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


def result(steps: Steps[str | None], clock: ManualClock) -> str:
    """Returns the result of the steps; their pauses pass at once."""
    try:
        while True:
            clock.now_ms += int(1000 * next(steps))
    except StopIteration as end:
        return str(end.value)


def after(seconds: float, error: StreamsError, clock: ManualClock) -> str:
    """Waits for a call that raises ``error`` for this time, and returns its result."""
    ready_ms = clock.now_ms + seconds * 1000

    def call() -> str:
        if clock.now_ms < ready_ms:
            raise error
        return "found"

    return result(retry_while_unavailable(call, clock), clock)


def test_stores_that_a_task_lets_go_of_as_it_moves_are_nothing_to_warn_of(clock: ManualClock, lines: list[Any]) -> None:
    assert after(2, LOCKED, clock) == "found"
    assert lines == []


def test_stores_that_stay_locked_are(clock: ManualClock, lines: list[Any]) -> None:
    assert after(60, LOCKED, clock) == "found"
    assert [line["log_level"] for line in lines] == ["warning", "info"]
    assert lines[0]["error"] == str(LOCKED)


def test_an_outage_and_its_end_are_reported_once_each(clock: ManualClock, lines: list[Any]) -> None:
    assert after(100, UNKNOWN, clock) == "found"
    assert [line["log_level"] for line in lines] == ["warning", "info"]
    assert "_UNKNOWN_PARTITION" in lines[0]["error"]
    assert lines[1]["waited_s"] == pytest.approx(100, abs=1)


def test_the_next_outage_is_reported_as_well(clock: ManualClock, lines: list[Any]) -> None:
    for _ in range(2):
        assert after(20, UNKNOWN, clock) == "found"
    assert len([line for line in lines if line["log_level"] == "warning"]) == 2


@pytest.mark.parametrize("error", [LOCKED, UNKNOWN])
def test_stores_locked_and_topics_unknown_for_too_long_are_an_error(clock: ManualClock, error: StreamsError) -> None:
    assert after(119, error, clock) == "found"
    with pytest.raises(type(error)):
        after(121, error, clock)


def test_an_outage_is_waited_for_without_limit(clock: ManualClock) -> None:
    assert after(100_000, AWAY, clock) == "found"


def test_an_outage_in_between_begins_the_patience_with_an_unknown_topic_again(clock: ManualClock) -> None:
    errors = iter([UNKNOWN] * 500 + [AWAY] + [UNKNOWN] * 500)

    def call() -> str:
        if (error := next(errors, None)) is not None:
            raise error
        return "found"

    assert result(retry_while_unavailable(call, clock), clock) == "found"


def test_an_order_ends_a_wait(clock: ManualClock) -> None:
    def call() -> str:
        raise AWAY

    steps = retry_while_unavailable(call, clock, lambda: clock.now_ms >= 1_001_000)
    assert result(steps, clock) == "None"
    assert clock.now_ms == 1_001_000


def test_an_operation_that_is_superseded_is_tried_once_all_the_same(clock: ManualClock) -> None:
    assert result(retry_while_unavailable(lambda: "found", clock, lambda: True), clock) == "found"
