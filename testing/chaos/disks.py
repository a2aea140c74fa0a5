"""Checks what is on disk when the application has ended: each store, active or standby, is what its changelog makes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.common.errors import StateStoreCorruptError
from penstock.common.ids import TaskId, TopicPartition
from penstock.kafka.clients import KafkaClients
from penstock.state.contracts import StateStore, TaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.key_value.ttl_store import TtlStateStore
from penstock.state.windowed.expiring_store import ExpiringStateStore
from penstock.state.windowed.segments import SEGMENT_BYTES
from penstock.tasks.program import TaskProgram, TaskPrograms
from penstock.tasks.state_manager import StateManager
from penstock.testing.chaos.checks import in_a_sentence
from penstock.testing.collector import Collector
from penstock.testing.whole_topics import whole
from penstock.topology.physical.task_plan import TaskPlan

_DIRECTORY = re.compile(r"(\d+_\d+)(?:-\d+)?")


@dataclass(frozen=True)
class OnDisk:
    """The rows of one store in one directory, None if they are corrupt, and how far into its changelog they go."""

    directory: str
    rows: Mapping[bytes, bytes] | None
    offset: int | None


def stores_equal(
    store: str, meant: Mapping[bytes, bytes], end: int, found: Sequence[OnDisk], wanted: int, damaged: bool
) -> list[str]:
    """At least ``wanted`` of those ``found`` have come to the ``end`` of the changelog, each with the rows ``meant``.

    A store that lags was of a lost actor, and belongs to no actor now. If files were ``damaged``, one may be corrupt:
    no task has read what was damaged yet, and one that does will restore it.
    """
    corrupt = [it.directory for it in found if it.rows is None]
    whole = [it for it in found if it.rows is not None and (it.offset or 0) >= end]
    wrong = [] if damaged else [f"{store} in {directory} is corrupt" for directory in corrupt]
    if len(whole) + len(corrupt) < wanted:
        there = ", ".join(f"{it.directory} at {it.offset}" for it in found) or "none"
        wrong += [f"{store}: {len(whole)} of {wanted} have come to offset {end} ({there})"]
    for it in whole:
        rows = it.rows or {}
        wrong += [
            f"{store} in {it.directory}: {key!r} is {rows.get(key)!r} instead of {meant.get(key)!r}"
            for key in sorted(meant.keys() | rows.keys())
            if meant.get(key) != rows.get(key)
        ]
    return in_a_sentence("a store is not what its changelog makes", wrong)


def stores_are_their_changelogs(
    home: Path, programs: TaskPrograms, plan: TaskPlan, clients: KafkaClients, wanted: int, damaged: bool
) -> list[str]:
    """For every task below ``home``, the state directory of an application that has ended; ``wanted`` of each. See
    :func:`stores_equal`."""
    found: dict[str, list[Path]] = {}
    for path in sorted(home.iterdir()):
        if (match := _DIRECTORY.fullmatch(path.name)) and path.is_dir():
            found.setdefault(match[1], []).append(path)
    wrong = []
    for task, reads in plan.partitions.items():
        program = programs.of(task.subtopology, reads)
        if any(store.persistent for store in program.stores.values()):
            wrong += _of_task(task, program, found.get(str(task), []), clients, wanted, damaged)
    return wrong


def _of_task(
    task: TaskId,
    program: TaskProgram,
    directories: Sequence[Path],
    clients: KafkaClients,
    wanted: int,
    damaged: bool,
) -> list[str]:
    logs = {
        name: TopicPartition(log.topic, task.partition)
        for name, log in program.changelogs.items()
        if not log.is_source_topic and program.stores[name].persistent
    }
    opened = {path.name: _opened(path, program) for path in directories}
    in_memory = open_task_stores(None, program.stores.values())
    manager = StateManager(task, program, in_memory, Collector(()))
    wrong = []
    try:
        for name, log in logs.items():
            end = 0
            for batch in whole(clients, [log]):
                end = batch.offsets[-1] + 1
                manager.restore(name, batch.keys, batch.values, batch.timestamps, end, batch.headers)
            store = manager.store(name)
            there = [_on_disk(directory, stores, store) for directory, stores in opened.items()]
            wrong += stores_equal(f"{name} of task {task}", _rows(in_memory, store), end, there, wanted, damaged)
    finally:
        for stores in (*opened.values(), in_memory):
            if stores is not None:
                stores.close()
    return wrong


def _opened(path: Path, program: TaskProgram) -> TaskStores | None:
    try:
        return open_task_stores(path, program.stores.values())
    except StateStoreCorruptError:
        return None


def _on_disk(directory: str, stores: TaskStores | None, store: StateStore) -> OnDisk:
    if stores is None:
        return OnDisk(directory, None, None)
    try:
        return OnDisk(directory, _rows(stores, store), stores.changelog_offset(store.name))
    except StateStoreCorruptError:
        return OnDisk(directory, None, None)


def _rows(stores: TaskStores, restored: StateStore) -> dict[bytes, bytes]:
    rows = stores.store(restored.name).scan(None, None)
    return {key: row for key, row in rows if must_be_everywhere(restored, key)}


def must_be_everywhere(restored: StateStore, row_key: bytes) -> bool:
    """Returns True if every copy of a store that has come as far as ``restored`` has the row, or none.

    A window that has expired is deleted with others, sooner on one disk than on another. A store with a TTL notes when
    it must look at a row again, and that depends on when the store was opened.
    """
    if isinstance(restored, TtlStateStore):
        return not restored.is_of_index(row_key)
    if isinstance(restored, ExpiringStateStore):
        rows = restored.rows
        if len(row_key) >= SEGMENT_BYTES + rows.schema.suffix_bytes:
            return rows.schema.time(row_key) >= rows.segments.first_visible(rows.stream_time)
    return True
