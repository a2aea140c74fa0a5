"""Every kind of object storage keeps the same contract, the one in memory included."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.common.errors import ObjectExistsError, ObjectMissingError
from penstock.objects.contracts import ObjectStore
from penstock.objects.manifest_log import ManifestLog
from penstock.objects.storage import require_conditional_writes


def test_an_object_is_read_as_it_was_written(objects: ObjectStore) -> None:
    objects.put("folder/a", b"first")
    objects.put("folder/a", b"second")
    objects.create("folder/empty", b"")
    assert objects.read("folder/a") == b"second"
    assert objects.read("folder/empty") == b""


def test_a_range_of_an_object_is_read(objects: ObjectStore) -> None:
    objects.put("folder/a", b"0123456789")
    assert objects.read_range("folder/a", 0, 3) == b"012"
    assert objects.read_range("folder/a", 7, 10) == b"789"
    assert objects.read_range("folder/a", 7, 99) == b"789"
    with pytest.raises(ObjectMissingError, match="folder/none'"):
        objects.read_range("folder/none", 0, 1)


def test_an_object_that_is_missing_is_named(objects: ObjectStore) -> None:
    with pytest.raises(ObjectMissingError, match="folder/none'"):
        objects.read("folder/none")
    assert objects.info("folder/none") is None


def test_an_object_is_created_only_if_absent(objects: ObjectStore) -> None:
    objects.create("a", b"1")
    with pytest.raises(ObjectExistsError, match="a' is in"):
        objects.create("a", b"2")
    assert objects.read("a") == b"1"
    require_conditional_writes(objects)
    assert [info.name for info in objects.list()] == ["a"]


def test_of_many_writers_exactly_one_creates_an_object(objects: ObjectStore) -> None:
    def create(number: int) -> bool:
        try:
            objects.create("manifest", str(number).encode())
        except ObjectExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as writers:
        created = list(writers.map(create, range(8)))
    assert created.count(True) == 1
    assert objects.read("manifest") == str(created.index(True)).encode()


def test_files_go_up_and_come_down_whole(objects: ObjectStore, tmp_path: Path) -> None:
    content = bytes(range(256)) * 100_000  # more than one chunk
    (tmp_path / "up").write_bytes(content)
    objects.upload("sst/1", tmp_path / "up")
    objects.download("sst/1", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == content
    info = objects.info("sst/1")
    assert info is not None
    assert (info.name, info.size) == ("sst/1", len(content))


def test_a_download_of_a_missing_object_leaves_no_file(objects: ObjectStore, tmp_path: Path) -> None:
    folder = tmp_path / "downloads"
    folder.mkdir()
    with pytest.raises(ObjectMissingError, match="sst/none'"):
        objects.download("sst/none", folder / "down")
    assert list(folder.iterdir()) == []


def test_a_listing_is_in_the_order_of_names(objects: ObjectStore) -> None:
    for name in ("b/2", "a/1", "b/10", "b/1", "bb/1"):
        objects.put(name, name.encode())
    assert [info.name for info in objects.list()] == ["a/1", "b/1", "b/10", "b/2", "bb/1"]
    assert [info.name for info in objects.list("b/")] == ["b/1", "b/10", "b/2"]
    assert [info.name for info in objects.list("b/", after="b/1")] == ["b/10", "b/2"]
    assert list(objects.list("none/")) == []


def test_deleting_names_without_an_object_is_no_error(objects: ObjectStore) -> None:
    for name in ("a", "b", "c"):
        objects.put(name, b"")
    objects.delete(["none", "a", "other", "c"])
    objects.delete([])
    assert [info.name for info in objects.list()] == ["b"]


def test_a_log_takes_each_number_once_and_passes_over_gaps(objects: ObjectStore) -> None:
    log = ManifestLog(objects, "manifests/")
    assert log.numbers() == []
    for number in (1, 2, 3, 11):
        log.append(number, f"m{number}".encode())
    with pytest.raises(ObjectExistsError):
        log.append(3, b"of another writer")
    objects.put("manifests/readme.txt", b"no manifest")
    objects.delete([log.name(2)])
    assert log.numbers() == [1, 3, 11]
    assert list(log.entries(after=1)) == [(3, b"m3"), (11, b"m11")]
