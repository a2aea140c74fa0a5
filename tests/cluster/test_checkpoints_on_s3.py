"""Checkpoints on a real Ray, a real Kafka and an S3 server: taken, deleted, fetched; a bucket that goes, and comes
back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
import structlog

from penstock.actors.checkpoints.storage import CheckpointStorage
from penstock.checkpoints.deletion import DeletionPlan, plan_deletion
from penstock.checkpoints.limits import DELETION_DELAY_MS
from penstock.checkpoints.listing import Listing
from penstock.cluster.client.control import end_actors
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.client.start_checks import check_checkpoints
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.cluster.watchers.checkpoint_deletion import CheckpointDeletion
from penstock.common.config import StreamsConfig
from penstock.common.errors import ObjectStoreError
from tests.cluster.settled import until_settled
from tests.cluster.test_checkpoints_end_to_end import KEYS, Counting, count, measured
from tests.s3 import BUCKET, S3Server
from tests.waiting import eventually

pytestmark = pytest.mark.submission


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as started:
        yield started


@pytest.fixture
def counting(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path, ray_cluster: None, server: S3Server
) -> Iterator[Counting]:
    it = Counting(broker, topic_name("on-s3"), tmp_path)
    it.location = server.location("checkpoints")
    it.config |= {
        "state.checkpoint.uri": it.location.url, "state.checkpoint.interval.ms": 1000,
        **{f"object.store.{key}": value for key, value in server.settings.items()},
    }  # fmt: skip
    yield it
    end_actors(it.id, find_coordinator(it.id))


def test_checkpoints_are_taken_deleted_and_fetched_and_a_bucket_that_goes_stops_nothing(
    counting: Counting, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = counting.started()
    for _ in range(3):
        counting.send(range(KEYS))
        eventually(counting.is_saved, "a checkpoint has all records")

    bucket = boto3.resource(
        "s3", endpoint_url=server.endpoint, region_name="us-east-1", aws_access_key_id="key",
        aws_secret_access_key="secret",
    ).Bucket(BUCKET)  # fmt: skip
    bucket.objects.delete()
    bucket.delete()
    counting.send(range(KEYS))
    eventually(lambda: measured(app, "checkpoint-failed-total") >= 1, "the metric counts what was not stored")
    eventually(lambda: "is not there" in str(checkpoint_error(app)), "the status has the reason")
    eventually(counting.has_committed, "the stream goes on")
    assert count(app, 0) == 4
    bucket.create()
    for _ in range(2):
        counting.send(range(100))
        eventually(counting.is_saved, "checkpoints are stored again")
    eventually(lambda: checkpoint_error(app) is None, "the status has no error any more")

    assert app.close()
    delete_all_but_the_newest(counting, monkeypatch)
    counting.lose_disk()
    newest = counting.newest()  # now: the application that is started takes another one after its interval
    assert newest is not None
    app = counting.started()
    assert measured(app, "checkpoint-restored-bytes") == newest.size
    assert [count(app, key) for key in (0, KEYS - 1)] == [6, 4]
    assert app.close()


def checkpoint_error(app: KafkaStreams) -> str | None:
    (task,) = until_settled(app).tasks
    return task.checkpoint_error


def delete_all_but_the_newest(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete as the coordinator does, but without its delay of an hour."""
    repository = counting.repository()
    # One whose upload began before the bucket went may lack files.
    before = _stored(counting)
    whole = [
        manifest
        for manifest in repository.newest_first("0_0")
        if {file.object for file in manifest.files.values()} <= before
    ]
    log: Any = structlog.get_logger()
    deletion = CheckpointDeletion(CheckpointStorage(counting.location, counting.id), log)
    with monkeypatch.context() as patched:
        patched.setattr("penstock.checkpoints.repository.plan_deletion", in_two_hours)
        for _ in range(2):  # manifests first, then their files
            deletion.delete_unneeded()
    kept = list(repository.newest_first("0_0"))
    assert [manifest.sequence for manifest in kept] == [manifest.sequence for manifest in whole[:2]]
    files = {file.object for manifest in kept for file in manifest.files.values()}
    assert _stored(counting) == files


def in_two_hours(listing: Listing) -> DeletionPlan:
    return plan_deletion(replace(listing, now_ms=listing.now_ms + 2 * DELETION_DELAY_MS))


def _stored(counting: Counting) -> set[str]:
    listed = counting.location.open().list(f"{counting.id}/files/")
    return {info.name.removeprefix(f"{counting.id}/") for info in listed}


def test_a_bucket_that_is_not_there_is_refused_at_the_start(server: S3Server) -> None:
    config = {f"object.store.{key}": value for key, value in server.settings.items()}
    config |= {"application.id": "checked", "state.checkpoint.uri": "s3://nowhere/checkpoints"}
    with pytest.raises(
        ObjectStoreError, match=r"'state.checkpoint.uri'.*s3://nowhere.* is not there.*leave the key out"
    ):
        check_checkpoints(StreamsConfig.of(config))
