"""An audit of an application that runs on Ray and Kafka, with Spark, while records come in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.actors.audit_messages import AuditStep, TakeImages
from penstock.actors.task_host.task_images import IMAGES
from penstock.api.kafka_streams import KafkaStreams
from penstock.cli.audit import images_of
from penstock.cluster.client import live_images
from penstock.cluster.queries.audit_point import AuditPointError
from penstock.cluster.status import ApplicationState
from penstock.common.errors import StreamsError
from penstock.kafka.clients import ConfluentClients
from penstock.pipeline.audit import audit as module
from penstock.pipeline.audit.audit import AuditReport, audit
from penstock.pipeline.audit.contracts import LiveStores
from penstock.pipeline.audit.plan import AuditPlan
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.program import TaskPrograms
from tests.cluster.conftest import LONG, WordCount
from tests.cluster.settled import until_settled
from tests.processes import signal_ray_process
from tests.waiting import PATIENCE_S, eventually, once_ready

asking = live_images._asking  # the real one, while a test has another in its place
LINES = ["the quick brown fox", "jumps over the lazy dog", "the end"] * 100


@pytest.fixture
def one_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes audits use the session there is."""

    @contextmanager
    def session(*where: object, **settings: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(module, "spark_session", session)


def audited(it: WordCount) -> AuditReport:
    app = it.app()
    return audit(app.topology, app.config, images_of(it.application_id, 60.0), "local[2]")


@contextmanager
def records_keep_coming(it: WordCount) -> Iterator[None]:
    ended = threading.Event()

    def send() -> None:
        while not ended.wait(0.05):
            it.send(LINES[:30])

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def killing_at_images(app: KafkaStreams, actors: Mapping[str, Any]) -> Callable[[Mapping[str, AuditStep]], Any]:
    """Returns what asks the actors, and kills the first one that is asked for images."""
    ask = asking(actors)
    killed: set[str] = set()

    def asked(steps: Mapping[str, AuditStep]) -> Any:
        if not killed and any(isinstance(step, TakeImages) for step in steps.values()):
            killed.add(min(steps))
            kill(app, min(steps))
        return ask(steps)

    return asked


def killing_afterwards(app: KafkaStreams) -> Callable[[AuditPlan, ConfluentClients], LiveStores]:
    """Returns what takes the images, and kills an actor whose image it has."""

    def take(plan: AuditPlan, clients: ConfluentClients) -> LiveStores:
        live = images_of(app.application_id, PATIENCE_S)(plan, clients)
        kill(app, app.status().actors[0].actor_id)
        return live

    return take


def kill(app: KafkaStreams, actor_id: str) -> None:
    (pid,) = (actor.pid for actor in app.status().actors if actor.actor_id == actor_id)
    signal_ray_process(pid)


def all_run(app: KafkaStreams) -> bool:
    try:
        status = app.status()
    except StreamsError:
        return False
    return status.state is ApplicationState.RUNNING and len(status.tasks) == status.task_count > 0


@pytest.mark.submission
@pytest.mark.usefixtures("one_spark", "ray_cluster")
@pytest.mark.parametrize("guarantee", ["exactly_once_v2"])
def test_an_application_that_works_is_clean_until_a_row_of_it_is_corrupted(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path, guarantee: str
) -> None:
    it = WordCount(broker, topic_name("audited"), tmp_path)
    it.send(LINES)
    entries = {"processing_guarantee": guarantee, "consumer_session_timeout_ms": 10_000}
    app = it.app(**entries)
    app.start()
    until_settled(app)
    with records_keep_coming(it):
        report = once_ready(lambda: audited(it), AuditPointError)  # tasks may move on a busy machine
    assert report.is_clean, report.differences
    (counts,) = report.stores
    assert counts.found == counts.expected > 0
    assert report.held_s > 0, "the tasks before the repartition topic took no records for a moment"
    eventually(it.complete, "the application has counted everything")
    root = tmp_path / it.application_id
    eventually(lambda: not (root / IMAGES).exists(), "the images are removed")
    assert app.close()

    builders = TaskPrograms(app.topology, app.config).of(1).stores.values()
    wrong = b"\0\0\0\0\0\0\0\5" + LONG.serialize(1)
    for folder in root.glob("1_*"):
        if folder.is_dir():
            stores = open_task_stores(folder, builders)
            if stores.store("counts").get(b"fox") is not None:
                batch = stores.new_batch()
                batch.put("counts", b"fox", wrong)
                stores.write(batch, {})
            stores.close()
    members = it.admin.group_members
    eventually(lambda: not members(it.application_id), "the coordinator has left the group")
    app = it.app(**entries)
    app.start()
    until_settled(app)
    report = once_ready(lambda: audited(it), AuditPointError)  # tasks may move on a busy machine
    assert app.close()
    assert [(each.store, each.key, each.found) for each in report.differences] == [("counts", "'fox'", "1 at 5")]


@pytest.mark.long
@pytest.mark.usefixtures("one_spark", "ray_cluster")
def test_an_actor_that_is_killed_ends_an_audit_only_before_its_images_are_taken(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    it = WordCount(broker, topic_name("audited"), tmp_path)
    it.send(LINES)
    app = it.app(processing_guarantee="exactly_once_v2", consumer_session_timeout_ms=10_000)
    app.start()
    until_settled(app)
    root = tmp_path / it.application_id
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(live_images, "_asking", partial(killing_at_images, app))
        with (
            records_keep_coming(it),
            pytest.raises(AuditPointError, match=r"actor stream/\S+ gives no images of its tasks"),
        ):
            audited(it)
    eventually(lambda: all_run(app), "another actor has the tasks")
    until_settled(app)
    report = audit(app.topology, app.config, killing_afterwards(app), "local[2]")
    assert report.is_clean, "the images are there, and their actor is not needed any more"
    eventually(it.complete, "the application has counted everything")
    eventually(lambda: not (root / IMAGES).exists(), "the images are removed")
    assert app.close()
