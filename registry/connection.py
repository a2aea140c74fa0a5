"""The registry as serdes see it: answers that are kept for ever, and requests that another thread sends.

The id of a schema never changes its meaning, so each is asked for once. A stream thread does not wait for an answer: it
gets a RetriableError, and the answer when it asks again. Other threads wait a while (common/may_wait.py).
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Hashable
from copy import copy
from functools import cache
from time import monotonic
from typing import Any, TypeVar, cast

from penstock.common.errors import RetriableError
from penstock.common.may_wait import may_wait_s
from penstock.registry.contracts import Reference, Schema, SchemaNotFoundError, SchemaRegistry
from penstock.registry.mock import SCHEME, MockSchemaRegistry
from penstock.registry.on_use import module
from penstock.registry.settings import RegistrySettings

T = TypeVar("T")
_MISSING_S = 10.0
"""Seconds until the registry is asked again for a schema that it did not have."""
_MOST_MISSING = 10_000
"""Number of such things that are known: broken records may name any id."""
_FEW = 4
"""Number of threads that ask a registry. They end with the process, even if they still wait."""


class Connection:
    """One registry, for all serdes of the process. Its methods raise what :class:`SchemaRegistry` raises."""

    def __init__(self, url: str, registry: SchemaRegistry) -> None:
        self.url = url
        self.registry = registry
        self._answers: dict[Hashable, Any] = {}
        self._missing: dict[Hashable, tuple[float, str]] = {}
        """The time until which the registry counts as not having it, and the message of the registry."""
        self._asked: dict[Hashable, _Question] = {}
        self._lock = threading.Lock()
        self._questions: queue.SimpleQueue[_Question] = queue.SimpleQueue()
        self._threads = 0

    def answer(self, name: Hashable, ask: Callable[[], T], wait_s: float | None = None) -> T:
        """Returns the answer of ``ask``, which is called once for each ``name``, or again after an error that may pass.

        ``ask`` runs in another thread, unless the registry answers at once. Raises RetriableError if there is no answer
        yet after ``wait_s``; by default, after the time that this thread may wait.
        """
        if name in self._answers:
            return cast(T, self._answers[name])
        if (missing := self._missing.get(name)) is not None and monotonic() < missing[0]:
            raise SchemaNotFoundError(missing[1])
        if isinstance(self.registry, MockSchemaRegistry) and self.registry.answers_at_once:
            return cast(T, self._answers.setdefault(name, ask()))
        with self._lock:
            if name in self._answers:  # by now
                return cast(T, self._answers[name])
            question, longest_s = self._asked.get(name), may_wait_s() if wait_s is None else wait_s
            if question is not None:
                longest_s = min(longest_s, may_wait_s())  # a stream thread has waited for it already
            else:
                question = self._asked[name] = _Question(ask)
                self._questions.put(question)
                if self._threads < _FEW:
                    self._threads += 1
                    threading.Thread(target=self._work, name="schema-registry", daemon=True).start()
        if not question.done.wait(longest_s):
            raise RetriableError(f"the schema registry {self.url} has been asked, and has not answered yet")
        with self._lock:
            if self._asked.get(name) is question:
                del self._asked[name]
            if question.error is None:
                return cast(T, self._answers.setdefault(name, question.answer))
            if isinstance(question.error, SchemaNotFoundError):
                self._note_missing(name, str(question.error))
        # Another one each time: an error that is raised again keeps the tracebacks of all times.
        raise copy(question.error) from question.error.__cause__

    def _note_missing(self, name: Hashable, why: str) -> None:
        now = monotonic()
        if len(self._missing) >= _MOST_MISSING:
            self._missing = {each: missing for each, missing in self._missing.items() if now < missing[0]}
        if len(self._missing) < _MOST_MISSING:
            self._missing[name] = now + _MISSING_S, why

    def _work(self) -> None:
        while True:
            self._questions.get().settle()

    def schema(self, schema_id: int) -> Schema:
        """Returns the schema of an id."""
        return self.answer(("id", schema_id), lambda: self.registry.schema(schema_id))

    def referred(self, reference: Reference) -> Schema:
        """Returns the schema of a reference."""
        subject, version = reference.subject, reference.version
        found = self.answer(("version", subject, version), lambda: self.registry.version(subject, version))
        return found.schema


class _Question:
    """A call of the registry, made by one thread and awaited by others."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask
        self.done = threading.Event()
        self.answer: Any = None
        self.error: Exception | None = None

    def settle(self) -> None:
        try:
            self.answer = self._ask()
        except Exception as error:  # raised again by those that wait
            self.error = error
        self.done.set()


def connection(settings: RegistrySettings) -> Connection:
    """Returns the process's connection to the registry of these settings; it is made without asking the registry.

    Raises ConfigError if Confluent's client is not installed, or refuses a setting.
    """
    return _connection(os.getpid(), settings.url, settings.client, MockSchemaRegistry.generation(settings.url))


@cache
def _connection(process: int, url: str, client: tuple[tuple[str, Any], ...], generation: int) -> Connection:
    """By process, too: a fork has no threads, and must not use the connections of its parent."""
    if url.startswith(SCHEME):
        return Connection(url, MockSchemaRegistry(url.removeprefix(SCHEME)))
    return Connection(url, module("confluent").ConfluentRegistry(url, dict(client)))
