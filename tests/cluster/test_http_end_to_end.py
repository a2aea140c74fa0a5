"""The HTTP API over a real application: Ray, Kafka, RocksDB and a socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import pytest
import ray
from prometheus_client.parser import text_string_to_metric_families

import penstock as ps
from penstock.api.page.flame_routes import FlameBody
from penstock.api.page.history_bodies import EventBody, HistoryBody
from penstock.api.page.live_bodies import LiveDocument
from penstock.api.page.record_bodies import PeekBody
from penstock.api.page.rollout_bodies import RolloutViewBody
from penstock.api.page.topology_bodies import TopologyBody
from penstock.api.schemas import ApplicationBody
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.read_side import ApplicationState
from penstock.common.errors import ConfigError
from tests.cluster.asking import patient_client
from tests.cluster.conftest import WordCount
from tests.deploy.dashboard import dashboard, missing_from
from tests.processes import is_alive, signal_ray_process
from tests.waiting import PATIENCE_S, eventually

LINES = ["the quick brown fox", "jumps over the lazy dog", "the end"] * 20


def started(it: WordCount) -> tuple[KafkaStreams, str]:
    # One actor: once it runs nothing moves by itself, however slowly other actors would start.
    app = it.app(tasks_per_actor=4, log_format="json", deserialization_exception_handler=ps.LogAndContinue())
    app.start()
    app.wait_until_running(PATIENCE_S)
    address = app.status().http_address
    assert address is not None
    return app, address


@pytest.mark.submission
def test_an_application_is_queried_and_watched_over_http(word_count: Callable[[], WordCount]) -> None:
    it = word_count()
    it.send(LINES)
    app, address = started(it)
    client = patient_client(address)
    application = f"/v1/applications/{it.application_id}"
    counts = f"{application}/stores/counts"
    eventually(it.complete, "all counts written")

    assert client.get("/readyz").status_code == 200
    for word, count in it.sent.items():
        answer = client.get(f"{counts}/keys/{word}").json()
        assert (answer["key"], answer["value"]) == (word, count)
        assert answer["timestamp"] >= 1000
    # The output is written before RocksDB is: a commit's last step.
    committed: dict[str, str | int] = {"isolation": "committed", "limit": 100}
    eventually(lambda: _entries(client, counts, committed) == dict(it.sent), "all counts committed")

    found = _paged(client, counts)
    assert found == dict(it.sent)
    assert list(found) == sorted(found)

    # A key that was committed again, or updated since, may count again.
    approximate = client.get(f"{counts}/approximate-count").json()["approximate_count"]
    assert len(it.sent) <= approximate <= it.changes() + len(it.sent)
    status = ApplicationBody.model_validate(client.get(application).json())
    assert (status.state, status.http_address) == ("RUNNING", str(client.base_url).rstrip("/"))
    assert [task.task_id for task in status.tasks] == ["0_0", "0_1", "1_0", "1_1"]

    _the_page_is_served(client, application, it)
    absent = client.get(f"{application}/stores/cuonts/keys/the")
    assert (absent.status_code, absent.json()["known_stores"]) == (404, ["counts"])
    assert client.get(f"{counts}/keys/nobody").json()["type"] == "urn:penstock:problem:absent-key"

    eventually(lambda: _metric(client, "kafka_streams_stream_task_process_total") > len(it.sent), "processed counted")
    _why_is_it_slow(client, application)

    def missing() -> list[str]:
        print("missing:", found := missing_from(client.get("/metrics").text, dashboard()))
        return found

    eventually(lambda: missing() == [], "all that the dashboard names")
    (node,) = ray.nodes()  # type: ignore[no-untyped-call]  # untyped in Ray
    endpoint = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    eventually(lambda: _of_ray(endpoint, it.application_id) == [], f"all that the dashboard names at {endpoint}")
    _restart_an_actor(client, application)
    _find_a_warning(it, client, application)
    lines = _log_lines(it.application_id)
    assert {line["actor"] for line in lines} >= {"coordinator", *(actor.actor_id for actor in status.actors)}
    assert {line["task"] for line in lines if line["event"] == "restoring store"} <= {"1_0", "1_1"}

    assert app.close()
    with pytest.raises(httpx.ConnectError):
        client.get("/healthz")


def _why_is_it_slow(client: httpx.Client, application: str) -> None:
    """Asks for the figures of operators, and for the stacks of the actor."""
    assert _metric(client, "kafka_streams_stream_client_state") == 2
    node = "kafka_streams_stream_processor_node_"
    names = [f"{node}busy_ratio{{", f"{node}records_rate{{", "kafka_streams_stream_thread_gc_ratio{"]

    def measured() -> bool:
        metrics = client.get("/metrics").text
        return all(name in metrics for name in names)

    eventually(measured, "shares of operators, and of the actor")

    def taken() -> bool:
        answer = client.post(f"{application}/actors/stream/1/flame", json={"seconds": 0.5})
        if answer.status_code == 503:  # py-spy has not ended in time
            return False
        assert answer.status_code == 200, answer.text
        stacks = FlameBody.model_validate(answer.json()).stacks
        return any("step (" in str(frame) for stack in stacks for frame in stack)

    eventually(taken, "the loop of the actor in its stacks")


def _restart_an_actor(client: httpx.Client, application: str) -> None:
    """Restarts the only actor, and finds that in the history."""
    refused = client.post(f"{application}/tasks/1_0/move", json={"to": "stream/1"})
    assert (refused.status_code, refused.json()["detail"]) == (409, "task 1_0 is on stream/1 already")
    assert client.post(f"{application}/actors/stream/1/restart").status_code == 200

    def placed() -> set[str]:
        body = ApplicationBody.model_validate(client.get(application).json())
        return {task.actor_id or "" for task in body.tasks if task.state == "running"}

    eventually(lambda: placed() == {"stream/2"}, "its tasks run on another")

    def sampled() -> bool:
        found = HistoryBody.model_validate(client.get(f"{application}/history").json())
        return bool(found.samples.tasks) and found.samples.tasks["1_0"].actor[-1:] == [
            found.samples.actors.index("stream/2") if "stream/2" in found.samples.actors else None
        ]

    eventually(sampled, "a sample with the new actor")
    body = HistoryBody.model_validate(client.get(f"{application}/history", params={"tasks": ""}).json())
    sentences = [event.sentence for event in body.events]
    assert "a user has asked to restart stream/1" in sentences
    assert "tasks 0_0, 0_1, 1_0, 1_1 move from stream/1 to stream/2: stream/1 has ended" in sentences
    assert body.samples.tasks == {}


def _find_a_warning(it: WordCount, client: httpx.Client, application: str) -> None:
    """Has the actor log a warning, and finds it in the history with the section that explains it."""
    producer = it.clients.producer()
    producer.send(it.lines, None, b"\xff", 1_000, partition=0)
    assert producer.flush(60)
    producer.close()

    def warnings() -> list[EventBody]:
        body = HistoryBody.model_validate(client.get(f"{application}/history", params={"tasks": ""}).json())
        logged = [event for event in body.events if event.kind == "log" and event.actor_id == "stream/2"]
        return [event for event in logged if event.page and event.page.startswith("messages/records.md#")]

    eventually(lambda: bool(warnings()), "the warning has arrived")
    (found,) = warnings()
    assert (found.level, found.times, found.task_id) == ("warning", 1, "0_0")


def _the_page_is_served(client: httpx.Client, application: str, it: WordCount) -> None:
    peeks: list[PeekBody] = []

    def peeked() -> bool:  # a peek ends after 4 s with what it has
        peeks.append(PeekBody.model_validate(client.get(f"{application}/topics/{it.counts_topic}/peek").json()))
        return bool(peeks[-1].records) and peeks[-1].stopped is None

    eventually(peeked, "records of the output topic")
    shown = {each.key.value: each.value.value for each in peeks[-1].records[::-1] if each.key and each.value}
    assert shown
    assert shown.items() <= it.sent.items()
    assert "text/html" in client.get("/", headers={"Accept": "text/html"}).headers["content-type"]
    topology = TopologyBody.model_validate(client.get(f"{application}/topology").json())
    rollout = RolloutViewBody.model_validate(client.get(f"{application}/rollout").json())
    assert rollout.fingerprints == {"1": topology.fingerprint}
    assert {function.file for each in topology.operators.values() for function in each.functions} - {None}
    with client.stream("GET", f"{application}/live") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: whole"
        document = LiveDocument.model_validate_json(next(lines).removeprefix("data: "))
    assert set(document.tasks) == {"0_0", "0_1", "1_0", "1_1"}
    assert set(document.operators) <= set(topology.operators)
    assert document.findings["0"].view in ("overview", "tasks", "topology")


@pytest.mark.long
def test_queries_of_tasks_whose_actor_is_being_replaced_get_503_with_a_time_to_retry_after(
    word_count: Callable[[], WordCount],
) -> None:
    it = word_count()
    it.send(LINES)
    app, address = started(it)
    client = httpx.Client(base_url=address, timeout=PATIENCE_S)
    counts = f"/v1/applications/{it.application_id}/stores/counts"
    eventually(it.complete, "all counts written")
    refused: list[httpx.Response] = []

    def answered() -> bool:
        answer = client.get(f"{counts}/keys/the")
        if answer.status_code not in (200, 404):  # 404: the word has not been processed again
            refused.append(answer)
        return answer.status_code == 200

    def lost() -> bool:  # kills again if an actor was replaced before a query came
        for actor in app.status().actors:
            if is_alive(actor.pid):
                signal_ray_process(actor.pid)
        answered()
        return bool(refused)

    eventually(lost, "the loss is noticed")
    eventually(answered, "the task runs again")
    for answer in refused:
        assert answer.status_code == 503, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert int(answer.headers["retry-after"]) >= 1
    # At least once: what was not committed is counted again.
    again = patient_client(address)
    eventually(lambda: again.get(f"{counts}/keys/the").json().get("value", 0) >= it.sent["the"], "nothing is lost")
    assert app.close()


@pytest.mark.long
def test_a_port_in_use_is_one_sentence_and_nothing_is_left_half_started(word_count: Callable[[], WordCount]) -> None:
    it = word_count()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        app = it.app(application_server=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(ConfigError, match="is in use by another program"):
            app.start()
        names = [entry["name"] for entry in ray.util.list_named_actors(all_namespaces=True)]
        assert [name for name in names if it.application_id in name] == []
        assert it.admin.group_members(it.application_id) == 0, "nothing has joined the group"
        assert app.state() is ApplicationState.CREATED
    with app:  # the port is free now: the same object starts
        app.wait_until_running(PATIENCE_S)
        address = app.status().http_address
        assert address is not None
        # An actor that has come late, on a busy machine, has tasks moved to it.
        eventually(lambda: httpx.get(f"{address}/readyz", timeout=PATIENCE_S).status_code == 200, "it is ready")


def _of_ray(endpoint: str, application_id: str) -> list[str]:
    """Returns what the dashboard names and Ray's endpoint does not have of this application."""
    try:
        lines = httpx.get(endpoint, timeout=PATIENCE_S).text.splitlines(keepends=True)
    except httpx.TransportError as error:
        return [f"{endpoint} does not answer yet: {error}"]
    ours = [line for line in lines if line.startswith("#") or f'application_id="{application_id}"' in line]
    return missing_from("".join(ours), dashboard(), "ray_kafka")


def _log_lines(application_id: str) -> list[dict[str, str]]:
    """Returns the log lines of this application's actors, by the name of the application in them."""
    (node,) = ray.nodes()  # type: ignore[no-untyped-call]  # untyped in Ray
    files = Path(node["ObjectStoreSocketName"]).parents[1].joinpath("logs").glob("worker-*.err")
    lines = [line for file in files for line in file.read_text().splitlines() if line.startswith('{"')]
    return [line for line in map(json.loads, lines) if line["application"] == application_id]


def _entries(client: httpx.Client, store: str, query: Mapping[str, str | int]) -> dict[str, int]:
    return {entry["key"]: entry["value"] for entry in client.get(f"{store}/range", params=query).json()["entries"]}


def _paged(client: httpx.Client, store: str) -> dict[str, int]:
    """Returns all entries of a store, which it reads three at a time."""
    found: dict[str, int] = {}
    query: dict[str, str | int] = {"limit": 3}
    while True:
        page = client.get(f"{store}/range", params=query).json()
        found |= {entry["key"]: entry["value"] for entry in page["entries"]}
        if page["cursor"] is None:
            return found
        query["cursor"] = page["cursor"]


def _metric(client: httpx.Client, name: str) -> float:
    """The sum of a metric over its labels."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)
