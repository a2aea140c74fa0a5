"""The records of a key over HTTP: the documents, the parameters, and the errors."""

from __future__ import annotations

import httpx
import pytest

from penstock.api.page.record_bodies import KeyRecordsBody
from penstock.cluster.record_side import Form, KeyRecords, KeyScan, Looked, Shown, ShownRecord
from penstock.common.errors import SerializationError, UnknownQueryError
from penstock.common.windows import Window
from tests.api.fake import FakeReadSide

STORE = "/v1/applications/word-count/stores/counts"
HOSTILE = "<img src=x onerror=alert(1)>\0\u202e"


def records_of(topic: str) -> KeyRecords:
    key = Shown(Form.DECODED, HOSTILE, 9)
    found = (
        ShownRecord(1, 9, 20, key, None, window=Window(0, 10)),
        ShownRecord(1, 4, 10, key, Shown(Form.DECODED, {"n": HOSTILE}, 9)),
    )
    return KeyRecords(
        topic, "changelog of store counts", found, (Looked(1, 2, 4, 10),), False, True, "1:4", "5 seconds"
    )


def test_the_versions_of_a_key_are_a_document(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.records.of_keys["counts", "changelog", "a/b"] = records_of("counts-changelog")
    answer = client.get(f"{STORE}/life/a%2Fb")
    body = KeyRecordsBody.model_validate(answer.json())
    assert (body.store, body.topic, body.compacted) == ("counts", "counts-changelog", True)
    assert (body.cursor, body.stopped, body.committed_only) == ("1:4", "5 seconds", False)
    deleted, first = body.records
    assert (deleted.value, deleted.window and (deleted.window.start, deleted.window.end)) == (None, (0, 10))
    assert (first.window, first.value and first.value.value) == (None, {"n": HOSTILE})
    assert read_side.records.scans == [KeyScan()]


def test_the_part_that_is_looked_at_can_be_chosen(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.records.of_keys["counts", "inputs", "a"] = records_of("lines")
    chosen: dict[str, str | int] = {"limit": 5, "offsets": 1000, "from": "2026-11-28T00:00:00Z", "cursor": "0:7"}
    assert client.get(f"{STORE}/inputs/a", params=chosen).json()["topic"] == "lines"
    assert read_side.records.scans == [KeyScan(5, 1000, 1795824000000, "0:7")]


@pytest.mark.parametrize("wrong", ["limit=0", "limit=1001", "offsets=0", "offsets=1000001", "from=x", "to=5"])
def test_other_parameters_are_refused(client: httpx.Client, wrong: str) -> None:
    assert client.get(f"{STORE}/life/a?{wrong}").status_code == 422


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnknownQueryError("store 'counts' has no changelog"), "unknown-query-type"),
        (SerializationError("store 'counts': key: no"), "invalid-key"),
    ],
)
def test_what_cannot_be_answered_is_400(
    client: httpx.Client, read_side: FakeReadSide, error: Exception, kind: str
) -> None:
    read_side.records.failure = error
    answer = client.get(f"{STORE}/life/a")
    assert (answer.status_code, answer.json()["type"]) == (400, f"urn:penstock:problem:{kind}")


def test_a_text_that_is_no_cursor_and_a_store_that_is_none(client: httpx.Client) -> None:
    answer = client.get(f"{STORE}/life/a", params={"cursor": "x"})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:penstock:problem:invalid-cursor")
    assert client.get("/v1/applications/word-count/stores/cuonts/life/a").status_code == 404
