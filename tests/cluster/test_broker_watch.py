"""The log reports once that no broker answers, and once that one does again."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from penstock.cluster.watchers.broker_watch import BrokerWatch
from penstock.common.errors import BrokerUnreachableError, KafkaRefusedError, StreamsError


class Kafka:
    """A broker that answers, or raises ``error``, and a clock."""

    def __init__(self) -> None:
        self.now = 1_767_225_600.0
        self.error: StreamsError | None = None
        self.clients = 0
        self.watch = BrokerWatch("app", "kafka:9092", self.client, lambda: self.now)

    def client(self) -> Kafka:
        self.clients += 1
        return self

    def reach(self) -> None:
        if self.error is not None:
            raise self.error

    def check(self, after_s: float = 5.0) -> list[tuple[str, str]]:
        """Checks ``after_s`` later; returns the lines that are logged, as (level, event)."""
        self.now += after_s
        with capture_logs() as logged:
            self.watch.check()
        self.last = logged
        return [(line["log_level"], line["event"]) for line in logged]


def test_one_warning_names_the_address_the_time_since_and_the_consequences() -> None:
    kafka = Kafka()
    assert kafka.check() == []
    kafka.error = BrokerUnreachableError("Connection refused")
    assert kafka.check() == [("warning", "broker unreachable")]
    (line,) = kafka.last
    assert (line["application"], line["address"]) == ("app", "kafka:9092")
    assert line["since"] == "2026-01-01T00:00:05+00:00", "of its last answer"
    assert "resumes automatically" in line["meanwhile"]
    assert "Connection refused" in line["error"]
    assert kafka.check() == [], "once is enough"


def test_its_return_is_reported_with_the_length_of_the_outage_and_a_second_outage_is_reported_again() -> None:
    kafka = Kafka()
    kafka.error = BrokerUnreachableError("no broker answers")
    kafka.check()
    assert kafka.watch.reason is not None
    assert "kafka:9092" in kafka.watch.reason
    kafka.error = None
    assert kafka.check() == [("info", "broker answers again")]
    assert kafka.last[0]["away_s"] == 10.0
    assert kafka.watch.reason is None
    assert kafka.check() == []
    kafka.error = BrokerUnreachableError("no broker answers")
    assert kafka.check() == [("warning", "broker unreachable")]


def test_after_a_question_without_an_answer_another_client_asks() -> None:
    kafka = Kafka()
    kafka.check()
    kafka.check()
    assert kafka.clients == 1
    kafka.error = BrokerUnreachableError("no broker answers")
    kafka.check()
    kafka.check()
    assert kafka.clients == 2


def test_a_broker_that_refuses_the_application_after_an_outage_is_reported_with_what_to_do() -> None:
    kafka = Kafka()
    kafka.error = BrokerUnreachableError("no broker answers")
    kafka.check()
    kafka.error = KafkaRefusedError("does not let this client in: check sasl.password")
    assert kafka.check() == [("warning", "broker refuses the application")]
    assert kafka.watch.reason is not None
    assert "check sasl.password" in kafka.watch.reason
    assert kafka.check() == [], "once is enough"
    kafka.error = None
    assert kafka.check() == [("info", "broker answers again")]


def test_other_errors_are_not_reported_as_an_unreachable_broker() -> None:
    kafka = Kafka()
    kafka.error = StreamsError("not authorised")
    with pytest.raises(StreamsError, match="not authorised"):
        kafka.check()
    assert kafka.watch.reason is None
