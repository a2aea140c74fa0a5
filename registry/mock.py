"""A schema registry within the process, for tests: ``schema.registry.url`` of ``mock://SCOPE``."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from typing_extensions import override

from penstock.common.errors import RetriableError
from penstock.registry.contracts import (
    RegisteredSchema,
    Schema,
    SchemaNotFoundError,
    SchemaRefusedError,
    SchemaRegistry,
)
from penstock.registry.evolution import checked, conflicts_between

SCHEME = "mock://"
Compatibility = Literal[
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"
]


@dataclass
class _Scope:
    """The parts that all registries of a scope share."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    ids: dict[Schema, int] = field(default_factory=dict)
    schemas: dict[int, Schema] = field(default_factory=dict)
    subjects: dict[str, list[RegisteredSchema]] = field(default_factory=dict)
    levels: dict[str | None, Compatibility] = field(default_factory=dict)
    latency_ms: float = 0.0
    outage: Exception | None = None
    calls: list[str] = field(default_factory=list)


class MockSchemaRegistry(SchemaRegistry):
    """The registry that serdes with the URL ``mock://SCOPE`` use. All of a scope in a process share their schemas.

    It gives ids, refuses what the compatibility of a subject does not allow (``BACKWARD`` by default) and can be slow,
    wrong or away. Other processes, such as Ray's, have registries of their own.
    """

    _scopes: ClassVar[dict[str, _Scope]] = {}
    _dropped: ClassVar[Counter[str]] = Counter()

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self._shared = self._scopes.setdefault(scope, _Scope())

    @classmethod
    def drop(cls, scope: str) -> None:
        """Forget the schemas and settings of a scope. Registries, programs and drivers made before keep them."""
        cls._dropped[scope] += 1
        cls._scopes.pop(scope, None)

    @classmethod
    def generation(cls, url: str) -> int:
        """Returns the number of times that the scope of ``url`` was dropped; 0 for the URL of another registry."""
        return cls._dropped[url.removeprefix(SCHEME)]

    # ---- faults ----

    @property
    def latency_ms(self) -> float:
        """Milliseconds that each call takes; 0 by default."""
        return self._shared.latency_ms

    @latency_ms.setter
    def latency_ms(self, latency_ms: float) -> None:
        self._shared.latency_ms = latency_ms

    @property
    def answers_at_once(self) -> bool:
        """True if calls take no time, so that also a stream thread may make them."""
        return self._shared.latency_ms == 0

    @contextmanager
    def outage(self, error: Exception | None = None) -> Iterator[None]:
        """Within the ``with``, calls raise ``error``; by default a RetriableError: the registry does not answer."""
        before = self._shared.outage
        self._shared.outage = error or RetriableError(f"the schema registry {SCHEME}{self.scope} does not answer")
        try:
            yield
        finally:
            self._shared.outage = before

    def answer_wrongly(self, schema_id: int, schema: Schema) -> None:
        """From now on, return ``schema`` for the id, whatever was registered."""
        self._shared.schemas[schema_id] = schema

    @property
    def calls(self) -> list[str]:
        """The calls until now, as ``"register orders-value"``."""
        return self._shared.calls

    @contextmanager
    def _called(self, what: str) -> Iterator[_Scope]:
        shared = self._shared
        shared.calls.append(what)
        if shared.latency_ms:
            time.sleep(shared.latency_ms / 1000)
        if shared.outage is not None:
            raise copy(shared.outage)  # it would keep the tracebacks of all times
        with shared.lock:
            yield shared

    # ---- schemas ----

    def set_compatibility(self, level: Compatibility, subject: str | None = None) -> None:
        """Set the compatibility of a subject, or of all subjects that have none of their own. Raises ValueError for an
        unknown one."""
        if level not in get_args(Compatibility):
            raise ValueError(f"{level!r} is no compatibility: there are {', '.join(get_args(Compatibility))}")
        self._shared.levels[subject] = level

    @property
    def subjects(self) -> list[str]:
        """The subjects that have a schema, sorted."""
        return sorted(self._shared.subjects)

    @override
    def schema(self, schema_id: int) -> Schema:
        with self._called(f"schema {schema_id}") as shared:
            if schema_id not in shared.schemas:
                raise SchemaNotFoundError(f"the schema registry {SCHEME}{self.scope} has no schema id {schema_id}")
            return shared.schemas[schema_id]

    @override
    def register(self, subject: str, schema: Schema, normalize: bool) -> int:
        with self._called(f"register {subject}") as shared:
            known = self._known(subject, schema)
            if known is not None:
                return known.id
            if found := self._conflicts(subject, schema):
                raise SchemaRefusedError(
                    f"the schema registry {SCHEME}{self.scope} refuses the schema for subject {subject}: it is not "
                    f"compatible ({self._level(subject)}): {'; '.join(found)}"
                )
            schema_id = shared.ids.setdefault(schema, len(shared.ids) + 1)
            shared.schemas.setdefault(schema_id, schema)
            versions = shared.subjects.setdefault(subject, [])
            versions.append(RegisteredSchema(schema_id, len(versions) + 1, subject, schema))
            return schema_id

    @override
    def lookup(self, subject: str, schema: Schema, normalize: bool) -> RegisteredSchema:
        with self._called(f"lookup {subject}"):
            known = self._known(subject, schema)
            if known is None:
                raise SchemaNotFoundError(f"subject {subject} of {SCHEME}{self.scope} does not have this schema")
            return known

    @override
    def version(self, subject: str, version: int) -> RegisteredSchema:
        with self._called(f"version {subject} {version}") as shared:
            versions = shared.subjects.get(subject, [])
            if not 1 <= version <= len(versions):
                raise SchemaNotFoundError(f"{SCHEME}{self.scope} has no version {version} of subject {subject}")
            return versions[version - 1]

    @override
    def latest(self, subject: str) -> RegisteredSchema:
        with self._called(f"latest {subject}") as shared:
            if subject not in shared.subjects:
                raise SchemaNotFoundError(f"{SCHEME}{self.scope} has no subject {subject}")
            return shared.subjects[subject][-1]

    @override
    def conflicts(self, subject: str, schema: Schema) -> list[str]:
        with self._called(f"conflicts {subject}"):
            return [] if self._known(subject, schema) is not None else self._conflicts(subject, schema)

    def _known(self, subject: str, schema: Schema) -> RegisteredSchema | None:
        return next((each for each in self._shared.subjects.get(subject, []) if each.schema == schema), None)

    def _level(self, subject: str) -> Compatibility:
        levels = self._shared.levels
        return levels.get(subject) or levels.get(None) or "BACKWARD"

    def _conflicts(self, subject: str, schema: Schema) -> list[str]:
        checked(schema)
        level, versions = self._level(subject), self._shared.subjects.get(subject, [])
        earlier = versions if level.endswith("TRANSITIVE") else versions[-1:]
        found: list[str] = []
        for each in earlier:
            if level.startswith(("BACKWARD", "FULL")):
                found += conflicts_between(reader=schema, writer=each.schema)
            if level.startswith(("FORWARD", "FULL")):
                found += conflicts_between(reader=each.schema, writer=schema)
        return list(dict.fromkeys(found))
