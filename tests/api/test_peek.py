"""Peeks over HTTP: the documents, whatever records hold, and the errors."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from penstock.api.page.record_bodies import KeyCountsBody, PeekBody, TopicsBody
from penstock.cluster.record_side import (
    Form,
    KeyCount,
    KeyCounts,
    Looked,
    Peek,
    ReadsBusyError,
    Shown,
    ShownRecord,
)
from penstock.common.errors import BrokerUnreachableError, KafkaRefusedError, MissingTopicError
from tests.api.fake import FakeReadSide

TOPICS = "/v1/applications/word-count/topics"


def record(
    value: Shown | None, key: Shown | None = None, headers: tuple[tuple[str, Shown | None], ...] = ()
) -> ShownRecord:
    return ShownRecord(0, 7, 1000, key, value, headers, len(headers))


def give(side: FakeReadSide, *records: ShownRecord) -> None:
    side.records.peeks["lines"] = Peek("lines", "read by lines-source", records, (Looked(0, 0, 5, 8),), True, None)


def value_of(client: httpx.Client) -> Any:
    answer = client.get(f"{TOPICS}/lines/peek")
    assert answer.status_code == 200, answer.text
    PeekBody.model_validate(answer.json())
    return answer.json()["records"][0]["value"]


def test_a_peek_is_a_document(client: httpx.Client, read_side: FakeReadSide) -> None:
    header = ("trace", Shown(Form.TEXT, "7", 1))
    give(read_side, *(record(Shown(Form.DECODED, {"a": [number]}, 9), None, (header,)) for number in range(30)))
    answer = client.get(f"{TOPICS}/lines/peek", params={"limit": 2}).json()
    body = PeekBody.model_validate(answer)
    assert [each.value and each.value.value for each in body.records] == [{"a": [0]}, {"a": [1]}]
    assert (body.topic, body.use, body.committed_only) == ("lines", "read by lines-source", True)
    assert len(client.get(f"{TOPICS}/lines/peek").json()["records"]) == 20
    topics = TopicsBody.model_validate(client.get(TOPICS).json())
    assert [(each.name, each.use) for each in topics.topics] == [("lines", "read by lines-source")]


def test_the_keys_of_the_newest_records_are_a_document(client: httpx.Client, read_side: FakeReadSide) -> None:
    give(read_side)
    keys = (KeyCount(Shown(Form.DECODED, "acme", 4), 3, 917), KeyCount(None, 3, 83))
    looked = (Looked(3, 0, 5, 1005),)
    read_side.records.counts["lines", 3] = KeyCounts("lines", "read by lines-source", 1000, 2, keys, looked, False)
    answer = client.get(f"{TOPICS}/lines/keys", params={"partition": 3})
    body = KeyCountsBody.model_validate(answer.json())
    assert [(each.key and each.key.value, each.partition, each.records) for each in body.keys] == [
        ("acme", 3, 917), (None, 3, 83)
    ]  # fmt: skip
    assert (body.records, body.different, body.stopped) == (1000, 2, None)
    missing = client.get(f"{TOPICS}/lines/keys", params={"partition": 4})
    assert (missing.status_code, missing.json()["type"]) == (404, "urn:penstock:problem:missing-topic")
    assert client.get(f"{TOPICS}/other/keys").status_code == 404
    assert client.get(f"{TOPICS}/lines/keys", params={"partition": -1}).status_code == 422


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "\u202eabc\0\x1b[31m", "', onload='x", "\U0001f600" * 3, ""]
)
def test_hostile_text_arrives_as_the_text_that_it_is(client: httpx.Client, read_side: FakeReadSide, text: str) -> None:
    shown = Shown(Form.TEXT, text, len(text.encode()))
    give(read_side, record(shown, shown, ((text, shown), ("null", None))))
    answer = client.get(f"{TOPICS}/lines/peek")
    assert answer.headers["content-type"] == "application/json"
    (found,) = PeekBody.model_validate(answer.json()).records
    assert found.key == found.value == found.headers[0].value
    assert found.value is not None
    assert (found.value.value, found.headers[0].name, found.headers[1].value) == (text, text, None)


class NoJson:
    """An object of a user's serde."""

    def __repr__(self) -> str:
        return "<" + "n" * 100_000 + ">"


@pytest.mark.parametrize(
    ("value", "shown", "problem"),
    [
        (NoJson(), "<nnn", "the value has no JSON form"),
        ("\ud800", "'\\ud800'", "the value has no JSON form"),
        ({"a": "x" * 300_000}, '{"a":"xxx', "its JSON form has 300,008 bytes"),
        (float("nan"), None, None),
        (2**70, 2**70, None),
        (b"\xff", "/w==", None),
    ],
)
def test_decoded_values_that_json_cannot_show_are_text_of_bounded_length(
    client: httpx.Client, read_side: FakeReadSide, value: object, shown: object, problem: str | None
) -> None:
    give(read_side, record(Shown(Form.DECODED, value, 9)))
    found = value_of(client)
    if problem is None:
        assert (found["form"], found["value"], found["problem"]) == ("decoded", shown, None)
    else:
        assert found["form"] == "text"
        assert str(found["value"]).startswith(str(shown))
        assert found["problem"].startswith(problem)
        assert len(json.dumps(found)) < 10_000


def test_a_header_whose_name_has_lone_surrogates_is_escaped(client: httpx.Client, read_side: FakeReadSide) -> None:
    give(read_side, record(None, None, (("\udc80", None),)))
    assert client.get(f"{TOPICS}/lines/peek").json()["records"][0]["headers"] == [{"name": "\\udc80", "value": None}]


def test_a_topic_that_is_none_of_the_application(client: httpx.Client, read_side: FakeReadSide) -> None:
    give(read_side)
    answer = client.get(f"{TOPICS}/__consumer_offsets/peek")
    assert (answer.status_code, answer.json()["known_topics"]) == (404, ["lines"])
    assert client.get("/v1/applications/other/topics/lines/peek").status_code == 404
    assert client.get(f"{TOPICS}/lines/peek", params={"limit": 101}).status_code == 422


@pytest.mark.parametrize(
    ("error", "status", "kind", "retry"),
    [
        (BrokerUnreachableError("no broker"), 503, "no-broker", "5"),
        (ReadsBusyError("busy"), 503, "reads-busy", "1"),
        (MissingTopicError("gone"), 404, "missing-topic", None),
        (KafkaRefusedError("no ACL"), 500, "kafka-refuses", None),
    ],
)
def test_errors_are_problem_documents(
    client: httpx.Client, read_side: FakeReadSide, error: Exception, status: int, kind: str, retry: str | None
) -> None:
    read_side.records.failure = error
    for answer in (client.get(TOPICS), client.get(f"{TOPICS}/lines/peek")):
        assert (answer.status_code, answer.json()["type"]) == (status, f"urn:penstock:problem:{kind}")
        assert answer.headers.get("retry-after") == retry
