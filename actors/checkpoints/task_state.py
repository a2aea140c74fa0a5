"""The state of a task as checkpoints describe it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.actors.task_host.hosted_task import HostedTask
from penstock.actors.task_host.stored_task import StoredTask
from penstock.checkpoints.fitness import ExpectedInput, ExpectedState, ExpectedStore
from penstock.checkpoints.manifest import CheckpointDraft, InputInCheckpoint, StoreInCheckpoint
from penstock.common.ids import TopicPartition
from penstock.state.builders import AnyStoreBuilder, is_restorable
from penstock.state.contracts import StoreInFolder


def persistent(task: StoredTask) -> list[AnyStoreBuilder]:
    """Returns the builders of the stores that are on disk."""
    return [builder for builder in task.state_manager.program.stores.values() if builder.persistent]


def is_replaceable(task: StoredTask) -> bool:
    """Returns True if the rows on disk can be replaced: each store has a changelog, or there are no rows yet."""
    return task.directory.is_new or all(map(is_restorable, persistent(task)))


def topics_of(task: StoredTask) -> set[str]:
    """Returns the topics of its changelogs and inputs."""
    return {tp.topic for tp in (*task.changelogs.values(), *task.sources)}


def expected_state(task: StoredTask) -> ExpectedState:
    """Returns what a checkpoint must fit. A standby expects no input offsets: so no store without a changelog fits."""
    ids = task.topic_ids
    committed = task.committed if isinstance(task, HostedTask) else {}
    inputs: dict[str, dict[int, ExpectedInput]] = {}
    for tp in task.sources:
        found = committed.get(tp)
        inputs.setdefault(tp.topic, {})[tp.partition] = ExpectedInput(
            None if found is None else found.offset, ids.get(tp.topic)
        )
    stores = {
        builder.name: ExpectedStore(builder.layout, topic, None if topic is None else ids.get(topic))
        for builder in persistent(task)
        for topic in [_changelog(task, builder.name)]
    }
    return ExpectedState(stores, inputs)


def draft(task: HostedTask, in_folder: Mapping[str, StoreInFolder]) -> CheckpointDraft:
    """Returns the description of a checkpoint of what ``task`` has committed."""
    ids = task.topic_ids
    stores = {
        name: StoreInCheckpoint(
            store.layout,
            topic,
            None if topic is None else ids.get(topic),
            store.changelog_offset,
        )
        for name, store in in_folder.items()
        for topic in [_changelog(task, name)]
    }
    inputs: dict[str, dict[int, InputInCheckpoint]] = {}
    for tp, (offset, metadata) in task.committed.items():
        inputs.setdefault(tp.topic, {})[tp.partition] = InputInCheckpoint(offset, metadata, ids.get(tp.topic))
    return CheckpointDraft(task.committed_ms, stores, inputs)


def _changelog(task: StoredTask, store: str) -> str | None:
    found: TopicPartition | None = task.changelogs.get(store)
    return None if found is None else found.topic
