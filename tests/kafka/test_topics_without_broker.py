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


@pytest.mark.parametrize(
    ("address", "is_url"),
    [("kafka://127.0.0.1:1", True), ("127.0.0.1:1,kafka://127.0.0.1:2", True), ("PLAINTEXT://127.0.0.1:1", False)],
)
def test_a_url_instead_of_an_address_is_the_likely_cause(
    address: str, is_url: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConfluentAdmin, "_connect_within", lambda _: 0.1)
    with pytest.raises(BrokerUnreachableError) as raised:
        Topics(address).partitions("orders")
    assert ("Write host:port, without 'kafka://'" in str(raised.value)) == is_url
