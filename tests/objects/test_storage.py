"""Object storage that cannot be used is reported with its URL, and without its secrets."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from penstock.common.errors import ConfigError, ObjectMissingError, ObjectStoreError
from penstock.common.secrets import Entries
from penstock.objects.digests import digest_of, digest_of_file
from penstock.objects.memory import MemoryObjects
from penstock.objects.storage import ObjectLocation, require_conditional_writes
from tests.s3 import BUCKET, S3Server


@pytest.mark.parametrize("url", ["hdfs://host/x", "http://host/x", "file://host/x", ""])
def test_a_url_that_names_no_storage_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="object storage"):
        ObjectLocation(url).open()


@pytest.mark.parametrize("url", ["gs://bucket/x", "az://account/container/x"])
def test_the_clouds_are_known(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    settings = {"google_skip_signature": "true"} if url.startswith("gs") else {"azure_skip_signature": "true"}
    assert ObjectLocation(url, settings).open().url == url


@pytest.mark.parametrize("name", ["aws_endpint", "google_bucket", "allow_htp"])
def test_a_setting_that_the_storage_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        ObjectLocation("s3://bucket/x", {name: "y"}).open()


def test_a_location_is_pickled_and_hides_its_secrets() -> None:
    location = ObjectLocation("s3://bucket/x", Entries(aws_secret_access_key="hidden"))
    again = pickle.loads(pickle.dumps(location))
    assert again == location
    assert again.below("y").url == "s3://bucket/x/y"
    assert "hidden" not in repr(again)


def test_a_path_is_a_local_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ObjectLocation("archive").open().put("a/b", b"1")
    assert (tmp_path / "archive/a/b").read_bytes() == b"1"
    assert ObjectLocation((tmp_path / "archive").as_uri()).open().read("a/b") == b"1"


@pytest.mark.parametrize("name", ["a#b", "a?b", "50%20", "with space"])
def test_a_path_is_taken_letter_by_letter_and_a_url_is_decoded(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    ObjectLocation(str(folder)).open().create("x", b"1")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert ObjectLocation(folder.as_uri()).open().read("x") == b"1"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ObjectStoreError, match="cannot be made"):
        ObjectLocation(str(tmp_path / "x")).open()


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ObjectStoreError, match="file"):
        ObjectLocation(str(tmp_path / "file")).open()


def test_a_bucket_that_does_not_exist_is_named(s3_server: S3Server) -> None:
    objects = ObjectLocation("s3://nowhere/x", s3_server.settings).open()
    for call in (lambda: objects.put("a", b"1"), lambda: objects.create("a", b"1"), lambda: objects.list()):
        with pytest.raises(ObjectStoreError, match="s3://nowhere/x is not there") as found:
            call()
        assert not isinstance(found.value, ObjectMissingError)


def test_a_server_that_ignores_the_condition_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = MemoryObjects()
    monkeypatch.setattr(objects, "create", objects.put)
    with pytest.raises(ObjectStoreError, match="conditional writes"):
        require_conditional_writes(objects)
    assert list(objects.list()) == []


def test_s3_has_what_was_written(s3_server: S3Server) -> None:
    s3_server.location("prefix").open().put("a", b"1")
    assert ObjectLocation(f"s3://{BUCKET}", s3_server.settings).open().read("prefix/a") == b"1"


def test_a_file_has_the_digest_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"content")
    assert digest_of_file(tmp_path / "f") == digest_of(b"content")
    assert len(digest_of(b"")) == 32


def test_without_credentials_the_error_says_so_and_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    nowhere = {"aws_region": "eu-central-1", "aws_metadata_endpoint": "http://127.0.0.1:1", "allow_http": "true"}
    with pytest.raises(ObjectStoreError, match="there are no credentials") as raised:
        ObjectLocation("s3://bucket/x", nowhere).open().create("name", b"1")
    assert "Set object.store.aws_access_key_id and object.store.aws_secret_access_key" in str(raised.value)
