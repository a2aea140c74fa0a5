"""An archive in S3, from the first record to a backfill's history; and S3 that refuses, or is gone in the middle."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.common.errors import ObjectStoreError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.iceberg_publisher import IcebergPublisher
from penstock.pipeline.backfill.archive_history import ArchiveHistory
from penstock.pipeline.iceberg_catalog import IcebergCatalog
from tests.pipeline.archive.without_spark import Cluster
from tests.s3 import BUCKET, S3Server

pytestmark = pytest.mark.xdist_group("s3 of archives")
AT = TopicPartition("lines", 1)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as running:
        yield running


def client(server: S3Server) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )


def in_s3(location: ObjectLocation) -> Cluster:
    cluster, objects = Cluster(), location.open()
    cluster.objects = objects  # type: ignore[assignment]
    return cluster


def run(location: ObjectLocation, settings: Path, *arguments: str) -> Any:
    lines = (f"object.store.{key}={value}" for key, value in location.settings.items())
    settings.write_text("\n".join(lines))
    done = CliRunner().invoke(
        app, ["archive", arguments[0], location.url, *arguments[1:], "--command-config", str(settings)]
    )
    assert done.exit_code == 0, (done.output, done.exception)
    return done


@pytest.mark.submission
def test_an_archive_in_s3_is_listed_verified_compacted_and_read_as_history(server: S3Server, tmp_path: Path) -> None:
    location, settings = server.location(f"archive/{uuid.uuid4().hex}"), tmp_path / "settings"
    cluster = in_s3(location)
    catalog = IcebergCatalog("c", {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db"}, server.settings)
    for _ in range(2):
        cluster.send(2)
        cluster.archive(cluster.objects, step=100, publisher=IcebergPublisher(cluster.objects, catalog, "kafka"))
    assert cluster.tables() == cluster.expected()
    rows = json.loads(run(location, settings, "list", "--json").output)
    assert [(row["topic"], row["records"]) for row in rows] == [("lines", 8), ("lines", 4), ("others", 4)]
    assert "lines-1: in order: 4 records" in run(location, settings, "verify").output
    assert "files became 1" in run(location, settings, "compact").output
    assert "lines-1: in order: 4 records" in run(location, settings, "verify").output
    history = ArchiveHistory(location, {"lines": cluster.archived("lines").topic_id})
    assert history.available([AT]) == {AT: OffsetRange(0, 4)}
    with closing(history.open({AT: OffsetRange(1, 4)})) as opened:
        batches = list(opened.batches(AT))
    assert [offset for batch in batches for offset in batch.offsets] == [1, 2, 3]
    assert catalog.open().load_table("kafka.lines").scan().to_arrow().num_rows == 12


@pytest.mark.submission
def test_a_table_may_be_in_glue_and_its_files_in_s3(server: S3Server) -> None:
    of_glue = {"type": "glue", "glue.endpoint": server.endpoint, "client.region": "us-east-1"}
    of_glue |= {"client.access-key-id": "key", "client.secret-access-key": "secret"}
    catalog, cluster = IcebergCatalog("c", of_glue, server.settings), in_s3(server.location("in-glue"))
    for _ in range(2):
        cluster.send(2)
        cluster.archive(cluster.objects, publisher=IcebergPublisher(cluster.objects, catalog, "kafka"))
    found = catalog.open().load_table("kafka.lines").scan().to_arrow()
    columns, order = ["partition", "offset", "key", "value"], [("partition", "ascending"), ("offset", "ascending")]
    expected = cluster.expected()["lines"].select(columns)
    assert found.select(columns).sort_by(order).to_pylist() == expected.to_pylist()


def test_a_bucket_that_is_gone_in_the_middle_ends_the_run(server: S3Server) -> None:
    s3, bucket = client(server), f"b{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=bucket)
    cluster = in_s3(ObjectLocation(f"s3://{bucket}/archive", server.settings))
    cluster.send(4)

    def gone(_: float) -> None:
        cluster.send(1)
        for found in s3.list_objects_v2(Bucket=bucket)["Contents"]:
            s3.delete_object(Bucket=bucket, Key=found["Key"])
        s3.delete_bucket(Bucket=bucket)

    with pytest.raises(ObjectStoreError, match=bucket):
        cluster.archive(cluster.objects, every_s=1.0, wait=gone)


def test_wrong_credentials_are_named_before_any_work(server: S3Server) -> None:
    """moto takes any credentials until it is told to check them."""
    import requests

    cluster = in_s3(server.location("refused"))
    cluster.send(1)
    requests.post(f"{server.endpoint}/moto-api/reset-auth", data=b"0", timeout=10)
    try:
        with pytest.raises(ObjectStoreError, match=r"cannot create '\.penstock-probe/.*(403|InvalidAccessKeyId)"):
            cluster.archive(cluster.objects)
    finally:
        requests.post(f"{server.endpoint}/moto-api/reset-auth", data=b"inf", timeout=10)
    assert "Contents" not in client(server).list_objects_v2(Bucket=BUCKET, Prefix="refused/")
