"""The actors and HTTP servers that have an application's stores and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.common.ids import TaskId
from penstock.common.partitioners import Partitioner


@dataclass(frozen=True)
class StoreMetadata:
    """The tasks that have a store's keys: ``(subtopology, 0)`` to ``(subtopology, partitions - 1)``. A global store has
    one partition here, for which any actor that has tasks answers.

    ``partitioner`` chooses the task in which a key is looked up first, by the key as ``source_topic`` has it.
    ``certain``: no other task can have it. ``serde_topic`` is what the store's serdes are bound to; for most serdes the
    bytes are the same everywhere. ``views``: the names of the ``QueryableStoreTypes`` that it may be asked as.
    ``changelog``: the topic that restores it, None without one. ``persistent``: its rows are on disk.
    """

    name: str
    kind: str
    subtopology: int
    partitions: int
    serde_topic: str
    source_topic: str
    certain: bool = False
    partitioner: Partitioner = Partitioner.MURMUR2
    views: tuple[str, ...] = ()
    changelog: str | None = None
    persistent: bool = True
    is_global: bool = False


@dataclass(frozen=True)
class ApplicationMetadata:
    """Everything that a reader needs to route a query. ``actors`` maps actor id to a Ray actor handle; ``standbys``:
    the actors that keep standbys of each task. ``generation``: the version of the program that the stores
    are of."""

    application_id: str
    epoch: int
    stores: Mapping[str, StoreMetadata]
    placement: Mapping[TaskId, str]
    actors: Mapping[str, Any]
    standbys: Mapping[TaskId, tuple[str, ...]] = field(default_factory=dict)
    generation: int = 1
