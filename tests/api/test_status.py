"""Status, health, metrics and documentation."""

from __future__ import annotations

import re
from dataclasses import replace

import httpx
import pytest
from openapi_spec_validator import validate
from prometheus_client.parser import text_string_to_metric_families

from penstock.actors.status import StandbyStatus
from penstock.api.schemas import ApplicationBody
from penstock.cluster.read_side import ApplicationState
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import TaskId
from penstock.common.metric_names import KINDS, TASK, THREAD
from penstock.common.partitioners import Partitioner
from tests.api.fake import FakeReadSide


def test_the_status_shows_state_tasks_placement_and_lag(client: httpx.Client) -> None:
    answer = client.get("/v1/applications/word-count")
    body = ApplicationBody.model_validate(answer.json())
    assert (body.state, body.epoch, body.lag) == ("RUNNING", 3, 5)
    assert body.placement == {"0_0": "actor-1", "0_1": "actor-2", "1_0": "actor-1"}
    assert [task.task_id for task in body.tasks] == ["0_0", "0_1", "1_0"]
    partition = body.tasks[2].partitions[0]
    assert (partition.topic, partition.committed, partition.lag) == ("word-count-counts-repartition", 100, 5)
    assert (body.tasks[2].dropped_records, body.tasks[2].lost_records) == (2, 4)
    assert body.actors[0].tasks == ["1_0", "0_0"]


def test_the_status_says_since_when_each_finding_holds_and_what_it_is_about(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    read_side.current = replace(read_side.current, unhosted={TaskId(1, 1): "it starts"}, since={"unhosted 1_1": 7})
    (finding, *_) = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json()).findings
    assert (finding.level, finding.since_ms, finding.view, finding.subject) == ("fault", 7, "tasks", "1_1")


def test_a_task_that_its_actor_has_not_reported_is_listed_without_figures(client: httpx.Client) -> None:
    body = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json())
    assert (body.tasks[1].actor_id, body.tasks[1].state, body.tasks[1].lag) == ("actor-2", None, None)
    assert (body.tasks[1].dropped_records, body.tasks[1].lost_records) == (None, None)


def test_records_that_retention_deleted_unread_are_reported_for_each_task(client: httpx.Client) -> None:
    body = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json())
    assert [task.lost_records for task in body.tasks] == [0, None, 4]


def test_findings_are_sentences_the_worst_first(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.current = replace(read_side.current, waiting="no broker answers")
    body = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json())
    assert [(each.level, each.sentence) for each in body.findings] == [
        ("fault", "No broker answers"),
        ("warning", "1 of 3 tasks restores: 9 records to go, about 1.5 s"),
    ]
    assert [task.behind_s for task in body.tasks] == [None, None, None]


def test_the_progress_of_a_restore_and_its_remaining_time_are_reported(client: httpx.Client) -> None:
    body = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json())
    restoring, unreported, running = body.tasks
    assert (restoring.restore_remaining, restoring.restore_total, restoring.restore_rate) == (9, 30, 6.0)
    assert restoring.restore_seconds_left == 1.5
    assert (unreported.restore_remaining, unreported.restore_seconds_left) == (None, None)
    assert (running.restore_remaining, running.restore_seconds_left) == (0, None)


def test_the_reason_that_an_application_waits_is_reported(client: httpx.Client, read_side: FakeReadSide) -> None:
    assert client.get("/v1/applications/word-count").json()["waiting"] is None
    read_side.current = replace(read_side.current, waiting="1 stream actor waits for a free CPU")
    body = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json())
    assert body.waiting == "1 stream actor waits for a free CPU"


def test_the_standbys_of_an_actor_are_reported_with_their_lag(client: httpx.Client, read_side: FakeReadSide) -> None:
    (actor,) = read_side.current.actors
    standby = StandbyStatus(TaskId(0, 1), 12)
    read_side.current = replace(read_side.current, actors=(replace(actor, standbys=(standby,)),))
    body = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json())
    assert [(it.task_id, it.lag) for it in body.actors[0].standbys] == [("0_1", 12)]


def test_an_actor_without_a_lease_is_shown(client: httpx.Client, read_side: FakeReadSide) -> None:
    (actor,) = read_side.current.actors
    expired = replace(actor, without_lease=True, lease_expirations=3)
    read_side.current = replace(read_side.current, actors=(expired,))
    body = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json())
    assert [(it.without_lease, it.lease_expirations) for it in body.actors] == [(True, 3)]


def test_state_and_lag_of_the_tasks_of_a_silent_actor_are_not_known(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    read_side.current = replace(read_side.current, silent=frozenset({"actor-1"}))
    body = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json())
    assert body.lag == 0
    assert [actor.silent for actor in body.actors] == [True]
    for task in (body.tasks[0], body.tasks[2]):
        assert (task.actor_id, task.state, task.lag) == ("actor-1", None, None)
        assert {partition.lag for partition in task.partitions} <= {None}


def test_a_running_application_is_healthy_and_ready(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}


def test_metrics_carry_the_names_of_kafka_streams(client: httpx.Client) -> None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        (sample.name, sample.labels.get("task_id")): sample
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["kafka_streams_stream_client_state", None].value == 2
    assert samples["kafka_streams_stream_alive_stream_threads", None].value == 1
    assert samples["kafka_streams_stream_failed_stream_threads", None].value == 0
    assert samples["kafka_streams_stream_thread_commit_total", None].value == 7
    assert samples["kafka_streams_stream_state_updater_active_restoring_tasks", None].value == 1
    assert samples["kafka_streams_stream_task_process_total", "1_0"].value == 120
    assert samples["kafka_streams_stream_task_dropped_records_total", "1_0"].value == 2
    assert samples["kafka_streams_stream_task_lost_records_total", "1_0"].value == 4
    assert samples["kafka_streams_stream_task_restore_remaining_records", "0_0"].value == 9
    assert samples["kafka_streams_stream_task_restore_total", "0_0"].value == 30
    assert samples["kafka_streams_stream_task_restore_rate", "0_0"].value == 6
    lag = samples["kafka_consumer_fetch_manager_records_lag", "1_0"]
    assert lag.value == 5
    assert lag.labels == {
        "application_id": "word-count",
        "thread_id": "actor-1",
        "task_id": "1_0",
        "topic": "word-count-counts-repartition",
        "partition": "0",
    }


def test_to_prometheus_counters_alone_end_in_total(client: httpx.Client, read_side: FakeReadSide) -> None:
    (actor,) = read_side.current.actors
    numbers = {(kind.group, kind.name): 1.0 for kind in KINDS if kind.group in (THREAD, TASK)}
    tasks = tuple(
        replace(task, measured={name: number for name, number in numbers.items() if name[0] == TASK})
        for task in actor.tasks
    )
    read_side.current = replace(read_side.current, actors=(replace(actor, tasks=tasks),))
    kinds = dict(line.split()[2:] for line in client.get("/metrics").text.splitlines() if line.startswith("# TYPE"))
    assert kinds["kafka_streams_stream_task_cache_size_bytes"] == "gauge"
    assert {name for name, kind in kinds.items() if name.endswith("_total")} == {
        name for name, kind in kinds.items() if kind == "counter"
    }


@pytest.mark.parametrize("state", ApplicationState)
def test_every_state_of_an_application_has_its_number(state: ApplicationState) -> None:
    from penstock.cluster.queries.metrics import CLIENT_STATES

    assert CLIENT_STATES[state] == list(ApplicationState).index(state)


KEYED = ("windows", "sessions", "versions", "history", "life", "inputs")
"""The routes to a key."""


def test_the_openapi_document_is_valid_and_complete(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    validate(document)
    application = "/v1/applications/{app}"
    assert set(document["paths"]) == {
        "/",
        "/healthz",
        "/readyz",
        "/metrics",
        application,
        f"{application}/stores",
        f"{application}/live",
        f"{application}/topology",
        f"{application}/rollout",
        f"{application}/pause",
        f"{application}/actors/{{actor}}/flame",
        f"{application}/resume",
        f"{application}/topics",
        f"{application}/dead-letters",
        f"{application}/dead-letters/{{topic}}/{{partition}}/{{offset}}",
        f"{application}/dead-letters/replay",
        f"{application}/topics/{{topic}}/peek",
        f"{application}/topics/{{topic}}/keys",
        f"{application}/scale",
        f"{application}/tasks/{{task}}/move",
        f"{application}/actors/{{actor}}/restart",
        f"{application}/history",
        f"{application}/stores/{{store}}/keys/{{key}}",
        f"{application}/stores/{{store}}/keys:batch",
        f"{application}/stores/{{store}}/range",
        f"{application}/stores/{{store}}/approximate-count",
        *(f"{application}/stores/{{store}}/{each}" for each in ("windows", "sessions")),
        *(f"{application}/stores/{{store}}/{each}/{{key}}" for each in KEYED),
    }


def test_every_documented_error_is_a_problem_document(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        (method,) = methods.values()
        for status, answer in method["responses"].items():
            if not status.startswith("2"):
                assert list(answer["content"]) == ["application/problem+json"], (path, status)


def test_the_documentation_page_needs_no_other_host(client: httpx.Client) -> None:
    page = client.get("/docs")
    assert page.status_code == 200
    assets = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(assets) >= 3
    for asset in assets:
        assert asset.startswith("/")
        assert client.get(asset).status_code == 200, asset


def test_an_application_is_paused_and_resumed_and_its_status_shows_it(client: httpx.Client) -> None:
    path = "/v1/applications/word-count"
    assert client.get(path).json()["paused"] is False
    for verb, paused in (("pause", True), ("pause", True), ("resume", False)):
        answer = client.post(f"{path}/{verb}")
        assert (answer.status_code, answer.json()["paused"], answer.json()["state"]) == (200, paused, "RUNNING")
        assert client.get(path).json()["paused"] is paused
        assert client.get("/readyz").status_code == 200, "it answers queries"
    assert client.post("/v1/applications/another/pause").status_code == 404


def test_one_that_has_ended_is_not_paused(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.failure = ApplicationStateError("application 'word-count' is in state ERROR: boom")
    answer = client.post("/v1/applications/word-count/pause")
    assert answer.status_code == 503
    assert "boom" in answer.text


def test_a_task_that_no_actor_has_is_listed_with_what_it_waits_for(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    read_side.current = replace(read_side.current, unhosted={TaskId(1, 1): "stream/3 is starting"})
    body = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json())
    waiting = body.tasks[-1]
    assert (waiting.task_id, waiting.actor_id, waiting.waits_for) == ("1_1", None, "stream/3 is starting")
    assert (waiting.state, waiting.lag) == (None, None)
    assert [task.waits_for for task in body.tasks[:-1]] == [None, None, None]


def test_topics_of_other_partitioners_are_reported(client: httpx.Client, read_side: FakeReadSide) -> None:
    body = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json())
    assert (body.partitioners, body.parted_topics) == ({}, [])
    first, *others = read_side.current.actors
    crc32 = {"a": Partitioner.CRC32, "b": Partitioner.CRC32}
    tasks = [replace(task, partitioners=crc32, parted=(("a", "c"),)) for task in first.tasks]
    tasks[-1] = replace(tasks[-1], partitioners={"b": Partitioner.UNKNOWN})
    read_side.current = replace(read_side.current, actors=(replace(first, tasks=tuple(tasks)), *others))
    body = ApplicationBody.model_validate(client.get("/v1/applications/word-count").json())
    assert body.partitioners == {"a": "crc32", "b": "unknown"}
    assert body.parted_topics == [["a", "c"]]


def test_a_text_with_half_a_character_is_shown_in_the_status_and_in_problems(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    read_side.current = replace(read_side.current, waiting="no room for caf\udce9")
    assert client.get("/v1/applications/word-count").json()["waiting"] == "no room for caf?"
    read_side.failure = ApplicationStateError("no room for caf\udce9")
    assert client.get("/v1/applications/word-count").json()["detail"] == "no room for caf?"
