"""A schema registry over HTTP, by Confluent's client: the only module that imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry import SchemaReference as ClientReference
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from typing_extensions import override

from penstock.common.errors import ConfigError, RetriableError, StreamsError
from penstock.registry.contracts import (
    Reference,
    RegisteredSchema,
    Schema,
    SchemaNotFoundError,
    SchemaRefusedError,
    SchemaRegistry,
    SchemaType,
)

T = TypeVar("T")
_TIMEOUT_S = 10
_SUBJECT, _VERSION, _SCHEMA = 40401, 40402, 40403
_NOT_FOUND = {_SUBJECT, _VERSION, _SCHEMA}
_REFUSED = {409, 422}


class ConfluentRegistry(SchemaRegistry):
    """The registry at ``url``; each call takes ten seconds at most and is made once: its callers try again."""

    def __init__(self, url: str, settings: Mapping[str, Any]) -> None:
        self._url = url
        given = {"url": url, "timeout": _TIMEOUT_S, "max.retries": 0, **settings}
        if given.get("bearer.auth.credentials.source") == "STATIC_TOKEN":
            # Confluent's client demands the name of a cluster, which only Confluent's cloud knows.
            given.setdefault("bearer.auth.logical.cluster", "-")
        try:
            self._client = SchemaRegistryClient(given)
        except (ValueError, TypeError, OSError) as error:
            raise ConfigError(f"the client of the schema registry {url} cannot be made: {error}") from error

    @override
    def schema(self, schema_id: int) -> Schema:
        return self._call(f"schema id {schema_id}", lambda: _schema(self._client.get_schema(schema_id)))

    @override
    def register(self, subject: str, schema: Schema, normalize: bool) -> int:
        given = _for_client(schema)
        what = f"schema for subject {subject}"
        return self._call(what, lambda: _is(int, self._client.register_schema(subject, given, normalize)))

    @override
    def lookup(self, subject: str, schema: Schema, normalize: bool) -> RegisteredSchema:
        given, what = _for_client(schema), f"schema in subject {subject}"
        return self._call(what, lambda: _registered(self._client.lookup_schema(subject, given, normalize)))

    @override
    def version(self, subject: str, version: int) -> RegisteredSchema:
        what = f"version {version} of subject {subject}"
        return self._call(what, lambda: _registered(self._client.get_version(subject, version)))

    @override
    def latest(self, subject: str) -> RegisteredSchema:
        what = f"latest version of subject {subject}"
        # Past the client's cache, which keeps the latest version for ever.
        return self._call(what, lambda: _registered(self._client.get_version(subject, "latest")))

    @override
    def conflicts(self, subject: str, schema: Schema) -> list[str]:
        given = _for_client(schema)
        try:
            fits = self._call(
                f"subject {subject}", lambda: self._client.test_compatibility_all_versions(subject, given)
            )
        except SchemaNotFoundError:
            return []
        except SchemaRefusedError as refused:
            return [str(refused)]
        return [] if fits else [f"the schema registry calls it incompatible with the versions of subject {subject}"]

    def _call(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except SchemaRegistryError as error:
            raise self._meant(what, error) from error
        except Exception as error:  # of the HTTP client: no connection, time-out, TLS, no JSON
            raise RetriableError(
                f"the schema registry {self._url} does not answer: {type(error).__name__}: {error}. Start it, or fix "
                "schema.registry.url"
            ) from error

    def _meant(self, what: str, error: SchemaRegistryError) -> StreamsError:
        said = f"{error.error_message} (HTTP {error.http_status_code}, code {error.error_code})"
        if error.error_code in _NOT_FOUND:
            return SchemaNotFoundError(f"the schema registry {self._url} has no {what}: {said}")
        if error.http_status_code in _REFUSED:
            return SchemaRefusedError(f"the schema registry {self._url} refuses the {what}: {said}")
        if error.http_status_code in (401, 403):
            fix = "Fix basic.auth.user.info or bearer.auth.*, or allow it in the registry"
        elif error.http_status_code == 404 or 300 <= error.http_status_code < 400:
            fix = "That is no answer of a schema registry: fix schema.registry.url"
        else:
            fix = "It is asked again"
        return RetriableError(f"the schema registry {self._url} cannot answer about {what} now: {said}. {fix}")


def _is(kind: type[T], found: Any) -> T:
    """Returns ``found``. Raises TypeError if it is none of ``kind``: a server of another kind may answer anything."""
    if not isinstance(found, kind):
        raise TypeError(f"its answer has {found!r} for a {kind.__name__}")
    return found


def _schema(found: Any) -> Schema:
    kind: SchemaType = found.schema_type or "AVRO"
    references = tuple(Reference(each.name, each.subject, each.version) for each in found.references or ())
    return Schema(_is(str, found.schema_str), kind, references)


def _registered(found: Any) -> RegisteredSchema:
    number, version = _is(int, found.schema_id), _is(int, found.version)
    return RegisteredSchema(number, version, found.subject, _schema(found.schema))


def _for_client(schema: Schema) -> ClientSchema:
    references = [ClientReference(each.name, each.subject, each.version) for each in schema.references]
    return ClientSchema(schema.text, schema.type, references)
