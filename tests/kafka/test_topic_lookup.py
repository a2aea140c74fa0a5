"""Topics that a broker creates when it is asked for them, and those that it does not know."""

from __future__ import annotations

import pytest

from penstock.common.errors import MissingTopicError
from penstock.kafka import topic_lookup


def test_a_topic_that_the_broker_creates_when_it_is_asked_is_asked_for_again() -> None:
    answers = iter([0, 0, 4])
    assert topic_lookup.partitions_of("new", lambda: next(answers)) == 4


def test_a_topic_that_stays_unknown_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_lookup, "_CREATED_WITHIN_S", 0.0)
    with pytest.raises(MissingTopicError, match="topic 'nowhere' does not exist: create it before it is written"):
        topic_lookup.partitions_of("nowhere", lambda: 0)
