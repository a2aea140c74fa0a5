"""The error of a person's question that no broker answers."""

from __future__ import annotations

import pytest

from penstock.common.errors import BrokerUnreachableError
from penstock.kafka.admin import ConfluentAdmin
from penstock.kafka.topics import Topics


def test_the_topic_that_was_asked_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConfluentAdmin, "_connect_within", lambda _: 0.1)
    with pytest.raises(BrokerUnreachableError, match="cannot look up topic 'orders'"):
        Topics("127.0.0.1:1").partitions("orders")
