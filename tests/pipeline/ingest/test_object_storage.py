"""Files in S3: one, or all below a prefix; what cannot be reached is named."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common.errors import ConfigError, ObjectStoreError
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.ingest.contracts import CsvForm
from penstock.pipeline.ingest.files import find_source
from penstock.pipeline.ingest.ingest import Ingest
from penstock.pipeline.ingest.mapping import RecordMapping
from tests.pipeline.ingest.rig import TOPIC, Rig, write_json_lines, write_parquet
from tests.s3 import S3Server

pytestmark = pytest.mark.xdist_group("s3 of ingests")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as running:
        yield running


@pytest.fixture
def location(server: S3Server) -> ObjectLocation:
    return server.location(f"ingest/{uuid.uuid4().hex}")


def names(url: str, settings: Any) -> list[str]:
    return [file.name for file in find_source(url, settings).files]


def test_a_url_names_one_object_or_all_below_it(location: ObjectLocation, tmp_path: Path) -> None:
    objects = location.open()
    for name in ("a.csv", "b/c.csv", "_SUCCESS", "b/.c.csv.crc", "_temporary/d.csv"):
        objects.put(name, b"k\n1\n")
    assert names(location.url, location.settings) == ["a.csv", "b/c.csv"]
    assert names(f"{location.url}/b/", location.settings) == ["c.csv"]
    assert names(f"{location.url}/b/c.csv", location.settings) == ["c.csv"]
    with pytest.raises(ConfigError, match="there are no files in s3://"):
        find_source(f"{location.url}/none", location.settings)


def test_files_of_s3_are_ingested_as_those_of_a_folder(location: ObjectLocation, tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    write_parquet(rig.folder / "rows.parquet", [{"n": number} for number in range(100)], groups=10)
    location.open().upload("rows.parquet", rig.folder / "rows.parquet")

    def run() -> int:
        source = find_source(location.url, location.settings)
        return Ingest("load", source, RecordMapping(TOPIC, 4), CsvForm(), rig.clients).run(rig.lanes()).records

    assert run() == 100
    assert run() == 0
    assert sorted(value["n"] for value in rig.values()) == list(range(100))


def test_a_bucket_that_does_not_exist_is_named(server: S3Server, tmp_path: Path) -> None:
    write_json_lines(tmp_path / "a.jsonl", [{}])
    with pytest.raises(ObjectStoreError, match="no-such-bucket"):
        find_source("s3://no-such-bucket/rows/", server.settings)
