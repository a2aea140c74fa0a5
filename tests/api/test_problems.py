"""Everything that goes wrong is a problem document (RFC 9457)."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any, NoReturn

import httpx
import pytest

from penstock.api.app import create_app
from penstock.api.server import serve
from penstock.cluster.client.server_settings import ServerSettings
from penstock.cluster.read_side import ApplicationState, StuckTask
from penstock.common.errors import (
    ApplicationStateError,
    ConfigError,
    StateStoreError,
    TaskNotReadyError,
    TopologyError,
    UnknownQueryError,
)
from penstock.common.ids import TaskId
from penstock.common.serdes import Serde
from tests.api.fake import STATUS, FakeReadSide, FakeStore
from tests.waiting import PATIENCE_S

APPLICATION = "/v1/applications/word-count"
STORE = f"{APPLICATION}/stores/counts"
READING = "isolation, not_older_than, wait_ms, stale"


def problem(
    client: httpx.Client, path: str, status: int, kind: str, method: str = "GET", body: Any = None
) -> dict[str, Any]:
    """Ask; check the form of the answer; return the document."""
    answer = client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document["type"] == f"urn:penstock:problem:{kind}"
    assert document["status"] == status
    assert document["instance"] == path.partition("?")[0]
    assert document["title"]
    assert document["detail"]
    document["retry-after"] = answer.headers.get("retry-after")
    return document


@pytest.mark.parametrize(
    "path", ["", "/stores", "/stores/counts/keys/a", "/stores/counts/range", "/stores/counts/approximate-count"]
)
def test_an_unknown_application_is_answered_with_the_known_ones(client: httpx.Client, path: str) -> None:
    document = problem(client, f"/v1/applications/other{path}", 404, "unknown-application")
    assert document["known_applications"] == ["word-count"]


@pytest.mark.parametrize("path", ["keys/a", "range?from=a", "range", "approximate-count"])
def test_an_unknown_store_is_answered_with_the_known_ones(client: httpx.Client, path: str) -> None:
    document = problem(client, f"{APPLICATION}/stores/cuonts/{path}", 404, "unknown-store")
    assert document["known_stores"] == ["by-number", "counts"]
    assert "cuonts" in document["detail"]


def test_an_application_that_ends_meanwhile_cannot_name_its_stores(
    client: httpx.Client, read_side: FakeReadSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stores() -> NoReturn:
        raise ApplicationStateError("application 'word-count' is in state NOT_RUNNING")

    monkeypatch.setattr(read_side, "stores", stores)
    problem(client, f"{APPLICATION}/stores/cuonts/range", 503, "application-not-running")


def test_an_absent_key_is_not_found(client: httpx.Client) -> None:
    assert "'nobody'" in problem(client, f"{STORE}/keys/nobody", 404, "absent-key")["detail"]


@pytest.mark.parametrize("key", ["seven", "2147483648", ""])
@pytest.mark.parametrize("path", ["keys/{}", "range?from={}", "range?to={}"])
def test_a_key_that_the_serde_cannot_read_is_refused(client: httpx.Client, key: str, path: str) -> None:
    document = problem(client, f"{APPLICATION}/stores/by-number/{path.format(key)}", 400, "invalid-key")
    assert "integer" in document["detail"]


def test_a_store_whose_keys_have_no_text_form_is_refused_with_the_reason(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    read_side.fakes["opaque"] = FakeStore(Serde("avro", bytes, bytes))
    assert "'avro'" in problem(client, f"{APPLICATION}/stores/opaque/keys/a", 400, "invalid-key")["detail"]


def test_a_query_of_a_restoring_task_is_answered_with_a_time_to_retry_after(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    read_side.failure = TaskNotReadyError("task 1_0 restores: 500 records to go")
    for path in ("keys/a", "range", "approximate-count"):
        document = problem(client, f"{STORE}/{path}", 503, "task-not-ready")
        assert document["retry-after"] == "1"
        assert document["detail"] == "task 1_0 restores: 500 records to go"


def test_an_application_that_does_not_run_is_unavailable(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.failure = ApplicationStateError("the coordinator of 'word-count' does not answer")
    for path in (APPLICATION, f"{STORE}/keys/a", "/readyz", "/metrics"):
        assert problem(client, path, 503, "application-not-running")["retry-after"] is not None


def test_an_application_that_is_not_running_is_not_ready(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.current = replace(STATUS, state=ApplicationState.REBALANCING)
    document = problem(client, "/readyz", 503, "not-ready")
    assert (document["state"], document["retry-after"]) == ("REBALANCING", "1")


def test_readyz_names_the_reason_that_an_application_waits(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.current = replace(STATUS, state=ApplicationState.REBALANCING, waiting="no broker answers at kafka:9092")
    detail = problem(client, "/readyz", 503, "not-ready")["detail"]
    assert str(detail).endswith("REBALANCING: no broker answers at kafka:9092")


def test_a_failed_application_reports_why_it_is_not_ready(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.current = replace(STATUS, state=ApplicationState.ERROR, error="topic lines is gone")
    assert problem(client, "/readyz", 503, "not-ready")["detail"].endswith("ERROR: topic lines is gone")


def test_a_stuck_task_makes_the_application_not_ready_and_is_named_with_its_place(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    stuck = StuckTask(TaskId(1, 0), "actor-1", "words", 0, 17, 5, 301.6)
    read_side.current = replace(STATUS, stuck=(stuck,))
    document = problem(client, "/readyz", 503, "stuck-task")
    assert document["detail"] == (
        "application 'word-count' has stuck tasks: task 1_0 on actor-1 has processed nothing for 302 s: it is at "
        "offset 17 of partition 0 of topic 'words', 5 records before its end"
    )
    assert client.get("/healthz").status_code == 200, "the server itself is well"
    (reported,) = client.get(APPLICATION).json()["stuck"]
    where = {"topic": "words", "partition": 0, "offset": 17, "lag": 5}
    assert reported == {"task_id": "1_0", "actor_id": "actor-1", **where, "for_s": 301.6}
    assert 'kafka_streams_stream_stuck_tasks{application_id="word-count"} 1.0' in client.get("/metrics").text


def test_a_topic_that_is_gone_makes_the_application_not_ready(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.current = replace(STATUS, missing_topic="topic 'app-counts-changelog' does not exist any more; stop it")
    document = problem(client, "/readyz", 503, "missing-topic")
    assert "topic 'app-counts-changelog' does not exist any more; stop it" in document["detail"]


def test_a_store_that_cannot_be_read_reports_why(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.failure = StateStoreError("store counts: block checksum mismatch")
    assert problem(client, f"{STORE}/keys/a", 500, "store-failed")["detail"] == "store counts: block checksum mismatch"


def test_a_question_that_this_kind_of_store_does_not_answer_lists_those_it_does(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    read_side.failure = UnknownQueryError("store 'counts' does not answer RangeQuery; it answers: KeyQuery")
    assert "it answers: KeyQuery" in problem(client, f"{STORE}/range", 400, "unknown-query-type")["detail"]


def test_an_unexpected_error_leaks_nothing(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.failure = RuntimeError("password=secret")
    for path in (f"{STORE}/keys/a", f"{STORE}/range", APPLICATION):
        assert "secret" not in str(problem(client, path, 500, "unexpected"))


def test_a_configuration_that_forbids_the_question_reports_why(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.failure = ConfigError("store 'counts' has no key serde, and default.key.serde is not set")
    for path in (f"{STORE}/keys/a", f"{STORE}/range?from=a"):
        assert problem(client, path, 500, "misconfigured")["detail"] == str(read_side.failure)


def test_details_that_an_answer_leaves_to_the_log_are_in_the_log(
    read_side: FakeReadSide, caplog: pytest.LogCaptureFixture
) -> None:
    read_side.failure = TopologyError("what nobody expects of a read side")

    async def ask() -> httpx.Response:
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server = asyncio.ensure_future(serve(read_side, ServerSettings(), address.set_result))
        async with httpx.AsyncClient(base_url=await address, timeout=PATIENCE_S) as asked:
            answer = await asked.get(f"{STORE}/keys/a")
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)
        return answer

    assert asyncio.run(ask()).json()["type"] == "urn:penstock:problem:unexpected"
    assert "TopologyError: what nobody expects of a read side" in caplog.text


def test_a_value_without_a_json_form_is_named_by_its_type(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.fakes["counts"].put("odd", object())
    assert "builtins.object" in problem(client, f"{STORE}/keys/odd", 500, "unreadable-entry")["detail"]


@pytest.mark.parametrize("query", ["limit=0", "limit=10001", "limit=many", "isolation=dirty"])
def test_an_invalid_option_is_named(client: httpx.Client, query: str) -> None:
    document = problem(client, f"{STORE}/range?{query}", 422, "invalid-request")
    assert document["errors"][0]["where"] == f"query/{query.partition('=')[0]}"


def test_a_look_up_names_an_invalid_option_in_the_same_form(client: httpx.Client) -> None:
    document = problem(client, f"{STORE}/keys/a?isolation=dirty", 422, "invalid-request")
    by_fastapi = problem(client, f"{STORE}/range?isolation=dirty", 422, "invalid-request")
    assert (document["detail"], document["errors"]) == (by_fastapi["detail"], by_fastapi["errors"])


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/healthz", None),
        ("/readyz", None),
        ("/metrics", None),
        (APPLICATION, None),
        (f"{APPLICATION}/stores", None),
        (f"{STORE}/keys/a", READING),
        (f"{STORE}/range", f"from, to, prefix, {READING}, order, limit, cursor"),
        (f"{STORE}/approximate-count", READING),
    ],
)
def test_a_parameter_that_a_route_does_not_know_is_refused_with_those_it_knows(
    client: httpx.Client, path: str, known: str | None
) -> None:
    document = problem(client, f"{path}?reverse=true", 422, "invalid-request")
    assert [error["where"] for error in document["errors"]] == ["query/reverse"]
    assert document["errors"][0]["what"].endswith(f"known are: {known}" if known else "takes no parameters")


@pytest.mark.parametrize("path", [f"{STORE}/keys/a?isolation=latest&isolation=committed", f"{STORE}/range?to=a&to=b"])
def test_a_parameter_that_is_given_twice_is_refused_since_one_would_be_ignored(client: httpx.Client, path: str) -> None:
    assert problem(client, path, 422, "invalid-request")["errors"][0]["what"] == "Given more than once"


def test_every_route_of_the_document_is_among_those_that_refuse(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert len(paths) >= 8
    for path, methods in paths.items():
        names = {"app": "word-count", "store": "counts", "key": "a", "topic": "lines", "partition": 0, "offset": 0}
        asked = path.format(**names, actor="stream/1", task="0_0")
        (method,) = methods
        body: object = {"keys": []} if method == "post" else None
        problem(client, f"{asked}?reverse=true", 422, "invalid-request", method.upper(), body)


@pytest.mark.parametrize("query", ["from=b&to=a", "from=b&to=a&limit=1"])
def test_a_range_that_ends_before_it_begins_is_refused(client: httpx.Client, query: str) -> None:
    problem(client, f"{STORE}/range?{query}", 400, "invalid-range")


def test_an_end_of_a_range_that_the_serde_refuses_is_an_invalid_key(client: httpx.Client) -> None:
    problem(client, f"{APPLICATION}/stores/by-number/range?from=1&to=99999999999", 400, "invalid-key")


def test_a_range_from_a_negative_to_a_positive_number_is_refused_with_two_ranges_to_ask_for(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    for number in (-3, -2, -1, 0, 1, 2, 3):
        read_side.fakes["by-number"].put(number, str(number))
    by_number = f"{APPLICATION}/stores/by-number/range"
    document = problem(client, f"{by_number}?from=-2&to=2", 400, "invalid-range")
    assert "from=-2 comes after to=2" in document["detail"]

    def keys(query: str) -> list[int]:
        return [entry["key"] for entry in client.get(f"{by_number}?{query}").json()["entries"]]

    assert keys("to=2") + keys("from=-2") == [0, 1, 2, -2, -1], "the two ranges that the answer names"


def test_a_cursor_that_no_page_gave_is_refused(client: httpx.Client) -> None:
    problem(client, f"{STORE}/range?cursor=zz", 400, "invalid-cursor")


def test_an_unknown_path_is_a_problem_document_too(client: httpx.Client) -> None:
    problem(client, "/v2/nothing", 404, "not-found")


def test_a_method_that_is_not_allowed_is_a_problem_document_too(client: httpx.Client) -> None:
    problem(client, f"{STORE}/keys/a", 405, "method-not-allowed", "DELETE")


def test_a_body_that_is_too_large_is_refused_before_it_is_read_to_its_end(
    read_side: FakeReadSide, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.api.limits.LARGEST_BODY", 1000)
    path = f"{STORE}/keys:batch"
    answer = client.post(path, json={"keys": ["k" * 1000]})
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")
    assert "a body may have 1000 bytes: send fewer keys at once" in answer.json()["detail"]
    assert client.post(path, json={"keys": []}).json()["entries"] == []
    taken, sent = 0, []

    async def receive() -> dict[str, object]:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": b"k" * 300, "more_body": True}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }  # fmt: skip
    asyncio.run(create_app(read_side)(scope, receive, send))
    assert (sent[0]["status"], taken) == (413, 4)
