"""Catalogs of Iceberg tables, by pyiceberg: reached by the settings of a command, with errors of penstock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.common.errors import ConfigError, StreamsError
from penstock.common.secrets import Entries, without_secrets

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_OF_STORAGE = {
    "aws_endpoint": "s3.endpoint",
    "aws_access_key_id": "s3.access-key-id",
    "aws_secret_access_key": "s3.secret-access-key",
    "aws_session_token": "s3.session-token",
    "aws_region": "s3.region",
}


@dataclass(frozen=True)
class IcebergCatalog:
    """A catalog: its name, and its properties by pyiceberg's names, such as ``uri``. Can be pickled.

    Properties that are missing come from pyiceberg's own configuration of this name (``.pyiceberg.yaml``, or
    ``PYICEBERG_CATALOG__<NAME>__URI``), and those of S3 from ``storage``: settings of object storage.
    """

    name: str
    properties: Mapping[str, str] = field(default_factory=Entries)
    storage: Mapping[str, str] = field(default_factory=Entries)

    def open(self) -> Catalog:
        """Returns the catalog. Raises ConfigError without pyiceberg, and for a catalog that is not configured."""
        try:
            from pyiceberg.catalog import load_catalog
        except ModuleNotFoundError as error:
            raise ConfigError(f"{error.name} is not installed: pip install 'penstock-streams[iceberg]'") from error
        derived = {ours: self.storage[name] for name, ours in _OF_STORAGE.items() if name in self.storage}
        try:
            return load_catalog(self.name, **{**derived, **self.properties})
        except Exception as error:  # of the catalog's own client: pyiceberg names none
            raise ConfigError(
                f"the Iceberg catalog {self.name!r} cannot be opened: {self._shown(error)}. Set iceberg.uri, and what "
                f"else it needs, in --command-config, or in pyiceberg's own configuration of {self.name!r}"
            ) from error

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Raises StreamsError for each error of pyiceberg. ``what``: the part of the message before the cause."""
        try:
            yield
        except StreamsError:
            raise
        except Exception as error:  # of pyiceberg, of a database, of HTTP, of pyarrow
            raise StreamsError(f"{what}: {self._shown(error)}") from error

    def _shown(self, error: Exception) -> str:
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
        secrets: dict[str, Any] = {**self.storage, **self.properties}
        return without_secrets(text, secrets)
