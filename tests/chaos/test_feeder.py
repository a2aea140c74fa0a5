"""The records that the harness writes, and those that it refuses to write."""

from __future__ import annotations

import time

import pytest

from penstock.common.errors import ConfigError
from penstock.common.topics import NewTopic
from penstock.testing.chaos import Written
from penstock.testing.chaos.feeder import write
from penstock.testing.fake_broker import FakeBroker
from penstock.testing.fake_clients import FakeClients

NOW_MS = time.time_ns() // 1_000_000
DAY_MS = 86_400_000


def test_records_of_long_ago_are_refused_for_brokers_would_delete_them_in_the_middle_of_the_run() -> None:
    clients = FakeClients("app")
    with pytest.raises(ConfigError, match=r"topic 'visits' is 9 days old.*Let the times of records be of today"):
        write(clients, [Written("visits", b"ada", b"x", NOW_MS - 9 * DAY_MS)])


def test_those_of_today_are_written() -> None:
    broker = FakeBroker()
    broker.create_topic(NewTopic("visits", 1))
    write(FakeClients("app", broker), [Written("visits", b"ada", b"x", NOW_MS - 1000)])
    assert len(broker.records("visits")) == 1
