"""Topics that a broker creates when it is asked for them, and those that it does not know."""

from __future__ import annotations

import pytest

from penstock.common.errors import MissingTopicError
from penstock.kafka import topic_lookup
from penstock.kafka.topic_lookup import CREATED_WITHIN_S, TopicLookup


class Clock:
    """Stands in for ``time``: a sleep passes at once."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(topic_lookup, "time", clock)
    return clock


def test_a_topic_that_the_broker_creates_when_it_is_asked_is_asked_for_again(clock: Clock) -> None:
    answers = iter([0, 0, 4])
    lookup = TopicLookup("broker:1")
    assert lookup.partitions("new", lambda topic: next(answers)) == 4
    assert lookup.partitions("new", lambda topic: next(answers)) == 4, "it is not asked for again"


def test_a_topic_that_stays_unknown_is_missing_and_is_waited_for_once(clock: Clock) -> None:
    lookup = TopicLookup("broker:1")
    for _ in range(3):
        with pytest.raises(MissingTopicError, match="topic 'nowhere' does not exist: create it before it is written"):
            lookup.partitions("nowhere", lambda topic: 0)
    assert clock.now_s == pytest.approx(CREATED_WITHIN_S, abs=0.2)


def test_unknown_topics_are_asked_for_without_a_wait(clock: Clock) -> None:
    counts = {"here": 2, "there": 3}
    lookup = TopicLookup("broker:1")

    def ask(topic: str) -> int:
        return counts.get(topic, 0)

    assert lookup.unknown(["here", "new", "there", "nowhere"], ask) == {"new", "nowhere"}
    assert clock.now_s == 0.0
    counts["new"] = 4
    assert lookup.unknown(["new", "nowhere"], ask) == {"nowhere"}
    clock.now_s = CREATED_WITHIN_S
    assert lookup.partitions("new", ask) == 4
    with pytest.raises(MissingTopicError, match="'nowhere'"):
        lookup.partitions("nowhere", ask)
    assert clock.now_s == CREATED_WITHIN_S, "its time was over"
