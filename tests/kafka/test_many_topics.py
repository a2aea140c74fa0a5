"""The wait of the admin client until topics that it has created are visible, in virtual time."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from penstock.common.errors import StreamsError
from penstock.common.topics import NewTopic
from penstock.kafka import admin as module
from penstock.kafka.admin import ConfluentAdmin


class Clock:
    """Time that passes by sleeping alone."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.5)


class Broker:
    """Takes every topic, and shows none."""

    def create_topics(
        self, asked: list[object], request_timeout: float, validate_only: bool
    ) -> dict[str, Future[None]]:
        return {}


@pytest.mark.parametrize(("topics", "seconds"), [(1, 30), (200, 110)])
def test_many_partitions_are_given_more_time(topics: int, seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, admin = Clock(), ConfluentAdmin("127.0.0.1:1", {})
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(admin, "_client", Broker())
    monkeypatch.setattr(admin, "_led", lambda names: False)
    with pytest.raises(StreamsError, match=rf"topics t0.* are created but not visible after {seconds} s"):
        admin.create_topics(NewTopic(f"t{number}", 4) for number in range(topics))
    assert seconds < clock.now < seconds + 2
