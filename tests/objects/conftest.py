"""Object storage of each kind: in memory, a local folder, an S3 server in this process, and a prefix of another one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.objects.contracts import ObjectStore
from penstock.objects.memory import MemoryObjects
from penstock.objects.prefix import ObjectsBelow
from penstock.objects.storage import ObjectLocation
from tests.s3 import S3Server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(params=["memory", "local", "s3", "below"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "memory":
        return MemoryObjects()
    if request.param == "below":
        storage = MemoryObjects()
        storage.put("elsewhere", b"of others")
        return ObjectsBelow(storage, "tests/")
    if request.param == "local":
        return ObjectLocation(str(tmp_path / "storage")).open()
    server: S3Server = request.getfixturevalue("s3_server")
    return server.location(f"tests/{uuid.uuid4().hex}").open()
