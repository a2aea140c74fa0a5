"""Bad records in a backfill: their dead letters are among its results, and a serde may need a while."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pytest

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.patience import Patience
from penstock.pipeline.rows import DROPPED, SINK
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost
from tests.pipeline.rows import output, process, run

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
NO_TOPICS = TopicCounts({}, frozenset(), frozenset())


def results(builder: ps.StreamsBuilder, *values: str) -> dict[str, list[dict[str, Any]]]:
    config = {
        "application.id": "app",
        "deserialization.exception.handler": ps.LogAndContinue(),
        "errors.dead.letter.queue.topic.name": "letters",
    }
    host = TaskHost(builder.build().subtopologies[0], HostSettings(StreamsConfig.of(config), NO_TOPICS, {}))
    rows = [process(0, "in", offset, "k", value, offset + 1) for offset, value in enumerate(values)]
    return output(run(host, rows, 2))


def test_letters_are_results() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, LONG)).to("out", ps.Produced.with_(STRING, LONG))
    found = results(builder, "12345678", "bad", "87654321", "worse")
    written = [(row["topic"], row["value"], row["timestamp"]) for row in found[SINK]]
    assert sorted(written, key=itemgetter(2)) == [
        ("out", b"12345678", 1),
        ("letters", b"bad", 2),
        ("out", b"87654321", 3),
        ("letters", b"worse", 4),
    ]
    letters = [row for row in found[SINK] if row["topic"] == "letters"]
    places = [{each["key"]: each["value"] for each in row["headers"]} for row in letters]
    assert [place["__streams.errors.offset"] for place in places] == [b"1", b"3"]
    assert [row["sequence"] for row in found[DROPPED]] == [2]


def test_a_serde_that_cannot_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    patience = Patience(60.0, lambda error: error, pauses.append)
    monkeypatch.setattr("penstock.pipeline.task_hosts.task_host._PATIENCE", patience)

    def decode(data: bytes) -> str:
        if data == b"slow" and len(pauses) < 3:
            raise ps.RetriableError("the schema registry does not answer")
        return data.decode()

    builder = ps.StreamsBuilder()
    registered: ps.Serde[str] = ps.Serde("registered", str.encode, decode)
    builder.stream("in", ps.Consumed.with_(STRING, registered)).to("out", ps.Produced.with_(STRING, registered))
    found = results(builder, "a", "slow", "b", "c")
    assert [row["value"] for row in found[SINK]] == [b"a", b"slow", b"b", b"c"]
    assert pauses == [0.05, 0.1, 0.2]


def test_serdes_are_ready_before_the_first_record(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(
        "penstock.pipeline.task_hosts.task_host._PATIENCE", Patience(60.0, lambda error: error, pauses.append)
    )

    class Registered(ps.Serde[str]):
        def prepare(self) -> None:
            if len(pauses) < 2:
                raise ps.RetriableError("the schema registry does not answer")
            raise ps.SerializationError("the schema registry refuses the schema")

    builder = ps.StreamsBuilder()
    registered = Registered("registered", str.encode, bytes.decode)
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).to("out", ps.Produced.with_(STRING, registered))
    with pytest.raises(ps.SerializationError, match="refuses the schema"):
        results(builder, "a")
    assert pauses == [0.05, 0.1]
