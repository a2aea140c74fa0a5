"""The input offsets up to which checkpoints are audited. Pure.

Each task takes its checkpoints by itself, so their input offsets differ. A task that reads source topics alone is
computed again up to the offsets of its own checkpoint: they say which records its rows stand for. An offset in a
repartition topic does not: it counts what the tasks before it have written, live, up to a moment that their
checkpoints do not name. So tasks behind repartition topics are audited if the checkpoints are *settled*: nothing is
left to process, and no task has changed its rows since its checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from penstock.checkpoints.manifest import CheckpointManifest
from penstock.common.ids import TaskId, TopicPartition

HasRecords = Callable[[TopicPartition, int], bool]
"""Returns True if a partition has records at this offset or later."""
Checkpoints = Mapping[TaskId, CheckpointManifest]


def inputs_of(manifest: CheckpointManifest) -> dict[TopicPartition, int]:
    """Returns the input offsets of a checkpoint."""
    return {
        TopicPartition(topic, number): found.offset
        for topic, partitions in manifest.inputs.items()
        for number, found in partitions.items()
    }


def unsettled(
    sources: Mapping[TaskId, Collection[TopicPartition]],
    checkpoints: Checkpoints,
    committed: Mapping[TopicPartition, int],
    has_records: HasRecords,
) -> str | None:
    """Returns the reason for which the checkpoints are not settled; None if they are. ``committed``: offsets of the
    application's group, asked for after the checkpoints were listed.

    ``has_records`` must be asked after both: then a record that came in between is found.
    """
    for task, partitions in sorted(sources.items()):
        for at in sorted(partitions):
            if has_records(at, committed.get(at, 0)):
                return f"{at} has records that are not processed yet"
        checkpoint = checkpoints.get(task)
        if checkpoint is not None and not _is_current(task, checkpoint, committed, has_records):
            return f"task {task} has processed records since its checkpoint"
    return None


def _is_current(
    task: TaskId, checkpoint: CheckpointManifest, committed: Mapping[TopicPartition, int], has_records: HasRecords
) -> bool:
    """Returns True if the rows of ``task`` are still those of its checkpoint. An actor takes no new one while the
    changelogs stay as they are, whatever the task reads."""
    if all(offset == committed.get(at) for at, offset in inputs_of(checkpoint).items()):
        return True
    stores = checkpoint.stores.values()
    return all(
        store.changelog is not None
        and not has_records(TopicPartition(store.changelog, task.partition), store.changelog_offset or 0)
        for store in stores
    )
