"""Object storage behind its contract, by obstore: a local folder, S3, Google Cloud Storage or Azure."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from penstock.common.errors import ConfigError, ObjectExistsError, ObjectMissingError, ObjectStoreError
from penstock.common.secrets import Entries, without_secrets
from penstock.objects.contracts import ObjectInfo, ObjectStore

SCHEMES = ("file", "s3", "gs", "az")
_PREFIXES = {"s3": "aws_", "gs": "google_", "az": "azure_"}
"""The prefix of the settings of a kind of storage; those without it are of the HTTP client, for all kinds."""
_NEED_AN_OBJECT = {"read", "look at", "delete"}
"""The operations that ask for an object. Others can miss the bucket only."""
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
"""Texts by which S3, Azure and Google Cloud Storage answer that there is no such bucket or container."""
_CREDENTIALS = {
    "s3": ("/latest/api/token", "/latest/meta-data"),
    "gs": ("/computeMetadata/",),
    "az": ("/metadata/identity", "/msi/token"),
}
"""Parts of the addresses at which a machine of a cloud gets its credentials. They are asked if no others are set, so an
error that names one means that there are none."""
_HOW_TO_GIVE = {
    "s3": "object.store.aws_access_key_id and object.store.aws_secret_access_key, or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY in the environment (files below ~/.aws are not read)",
    "gs": "object.store.google_service_account (a file), or GOOGLE_APPLICATION_CREDENTIALS in the environment",
    "az": "object.store.azure_storage_account_key, or AZURE_STORAGE_ACCOUNT_KEY in the environment",
}
_DELETED_AT_ONCE = 500
_CHUNK_BYTES = 8 << 20
_RETRIES = {"max_retries": 8, "retry_timeout": timedelta(minutes=2)}


@dataclass(frozen=True)
class ObjectLocation:
    """A URL of object storage and the settings to reach it: can be pickled, and opened in each process.

    ``url``: ``file:///folder``, a path, ``s3://bucket/prefix``, ``gs://…`` or ``az://account/container/prefix``.
    ``settings``: by obstore's names: of the storage, such as ``aws_endpoint``, and of its HTTP client, such as
    ``allow_http``. What is not set comes from the environment (``AWS_ACCESS_KEY_ID``, …) or from the credentials of the
    machine.
    """

    url: str
    settings: Mapping[str, str] = field(default_factory=Entries)

    def below(self, name: str) -> ObjectLocation:
        """Returns the location of ``name`` below this one."""
        return ObjectLocation(f"{self.url.rstrip('/')}/{name}", self.settings)

    @property
    def shown_url(self) -> str:
        """The URL as messages show it: that of the storage, which need not be there. Raises ConfigError for a URL that
        cannot be one."""
        return _without_user(_normal(self.url)[0])

    def is_missing_folder(self) -> bool:
        """Returns True if this is a local folder that is not there, which :meth:`open` would make."""
        folder = _normal(self.url)[1]
        return folder is not None and not folder.is_dir()

    def open(self) -> ObjectStore:
        """Returns the storage. A local folder is made if it is not there. Raises ConfigError for a URL or setting that
        cannot be one."""
        return _ObstoreObjects(self)


def require_conditional_writes(objects: ObjectStore) -> None:
    """Raise ObjectStoreError unless ``objects`` can be written, and refuses to create an object that exists.

    Without that two writers could both believe that they have committed. Some servers that resemble S3 ignore the
    condition.
    """
    name = f".penstock-probe/{uuid.uuid4().hex}"
    objects.create(name, b"1")
    try:
        objects.create(name, b"2")
    except ObjectExistsError:
        return
    finally:
        objects.delete([name])
    raise ObjectStoreError(
        f"{objects.url} overwrites an object although it was to be created only if absent (If-None-Match: *): two "
        "writers could not be kept apart. Use storage with conditional writes, such as S3, GCS, Azure or a local folder"
    )


class _ObstoreObjects:
    def __init__(self, location: ObjectLocation) -> None:
        self._settings = location.settings
        url, self._folder = _normal(location.url)
        self._url = _without_user(url)
        try:
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._store: Any = from_url(url, automatic_cleanup=True)
            else:
                self._store = _remote(url, location.settings)
        except OSError as error:
            raise ObjectStoreError(f"folder {self._folder} cannot be made: {error}") from None
        except (BaseError, ValueError) as error:
            raise ConfigError(f"object storage {self._url}: {self._shown(error)}") from None

    @property
    def url(self) -> str:
        return self._url

    def read(self, name: str) -> bytes:
        with self._errors("read", name):
            return bytes(obstore.get(self._store, name).bytes())

    def read_range(self, name: str, begin: int, end: int) -> bytes:
        with self._errors("read", name):
            return bytes(obstore.get_range(self._store, name, start=begin, end=end))

    def create(self, name: str, content: bytes) -> None:
        with self._errors("create", name):
            obstore.put(self._store, name, content, mode="create")

    def put(self, name: str, content: bytes) -> None:
        with self._errors("write", name):
            obstore.put(self._store, name, content)

    def upload(self, name: str, file: Path) -> None:
        with self._errors("write", name):
            obstore.put(self._store, name, file)

    def download(self, name: str, file: Path) -> None:
        partial = file.with_name(f"{file.name}.{uuid.uuid4().hex}.partial")
        try:
            with self._errors("read", name):
                chunks = obstore.get(self._store, name).stream(min_chunk_size=_CHUNK_BYTES)
                with partial.open("wb") as content:
                    for chunk in chunks:
                        content.write(chunk)
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)

    def info(self, name: str) -> ObjectInfo | None:
        try:
            with self._errors("look at", name):
                # obstore 0.9 and 0.10 return the path in the bucket, later versions the name in the store.
                return replace(_info(obstore.head(self._store, name)), name=name)
        except ObjectMissingError:
            return None

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        with self._errors("list", prefix):
            found = [_info(meta) for page in obstore.list(self._store, prefix or None) for meta in page]
        # A local folder is listed in the order of its file system.
        return iter(sorted((info for info in found if info.name > after), key=lambda info: info.name))

    def delete(self, names: Iterable[str]) -> None:
        waiting = list(names)
        for begin in range(0, len(waiting), _DELETED_AT_ONCE):
            some = waiting[begin : begin + _DELETED_AT_ONCE]
            try:
                with self._errors("delete", some[0]):
                    obstore.delete(self._store, some)
            except ObjectMissingError:  # a local folder says so of the first that is missing, and deletes no other
                for name in some:
                    self._delete_one(name)

    def _delete_one(self, name: str) -> None:
        try:
            with self._errors("delete", name):
                obstore.delete(self._store, name)
        except ObjectMissingError:
            return

    @contextmanager
    def _errors(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if what not in _NEED_AN_OBJECT:
                raise self._not_there(what, name) from error
            raise ObjectMissingError(f"there is no object {name!r} in {self._url}") from None
        except AlreadyExistsError:
            raise ObjectExistsError(f"object {name!r} is in {self._url} already") from None
        except BaseError as error:
            if any(code in str(error) for code in _NO_BUCKET):  # a listing says it so
                raise self._not_there(what, name) from error
            scheme = urlsplit(self._url).scheme
            if any(part in str(error) for part in _CREDENTIALS.get(scheme, ())):
                raise ObjectStoreError(
                    f"cannot {what} {name!r} in {self._url}: there are no credentials, and this machine has none of "
                    f"its own. Set {_HOW_TO_GIVE[scheme]}"
                ) from error
            raise ObjectStoreError(f"cannot {what} {name!r} in {self._url}: {self._shown(error)}") from error

    def _not_there(self, what: str, name: str) -> ObjectStoreError:
        return ObjectStoreError(
            f"cannot {what} {name!r}: {self._url} is not there. Make its bucket, container or folder first"
        )

    def _shown(self, error: Exception) -> str:
        # obstore appends the Rust structure of the error, which repeats it.
        text = str(error).partition("\n\nDebug source:")[0].strip()
        return without_secrets(text, self._settings)


def _remote(url: str, settings: Mapping[str, str]) -> Any:
    prefix = _PREFIXES[urlsplit(url).scheme]
    config = {key: value for key, value in settings.items() if key.startswith(prefix)}
    client = {key: _client_value(value) for key, value in settings.items() if key not in config}
    # Typed by scheme in obstore; here the scheme is known at run time alone.
    return from_url(url, config=config, client_options=client, retry_config=_RETRIES)  # type: ignore[call-overload]


def _client_value(value: str) -> str | bool:
    return value == "true" if value in ("true", "false") else value


def _normal(url: str) -> tuple[str, Path | None]:
    """Returns the URL as obstore takes it, and the folder if it is a local one. A path is one, too."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        # In a path, "?", "#" and "%" are letters like any others.
        path = unquote(parts.path) if parts.scheme else url
        if not path or parts.netloc not in ("", "localhost"):
            raise ConfigError(f"object storage {url!r}: a local folder is file:///folder, or its path")
        folder = Path(os.path.abspath(path))  # noqa: PTH100, a folder that may not exist, links as they are
        return folder.as_uri(), folder
    if parts.scheme not in SCHEMES:
        raise ConfigError(
            f"object storage {_without_user(url)!r}: penstock knows a path and the schemes {', '.join(SCHEMES)}"
        )
    return url, None


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _info(meta: Any) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1000))
