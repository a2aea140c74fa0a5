"""Hands the stores of all tasks over as checkpoint files: one manifest, after the changelogs and before the offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from penstock.checkpoints.hand_overs import HandedOverTask, HandOverWriter, SinkPosition, Sinks
from penstock.checkpoints.manifest import InputInCheckpoint, Inputs, StoreInCheckpoint
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.kafka.contracts import Admin
from penstock.objects.storage import ObjectLocation, require_conditional_writes
from penstock.pipeline.backfill.plan import Stage
from penstock.pipeline.backfill.work import RunCheckpoints
from penstock.tasks.program import TaskProgram

Offsets = Mapping[TopicPartition, CommittedOffset]


def checkpoint_location(config: StreamsConfig) -> ObjectLocation | None:
    """Returns the place of the application's checkpoints; None without one. Raises ObjectStoreError if it cannot be
    written, or if two writers could not be kept apart there, ConfigError for a URL or setting that cannot be one."""
    if config.state_checkpoint_uri is None:
        return None
    location = ObjectLocation(config.state_checkpoint_uri, config.object_store_settings)
    require_conditional_writes(location.open())
    return location


def begun_checkpoints(location: ObjectLocation | None, application_id: str) -> RunCheckpoints | None:
    """Returns the place of the checkpoints of a run that begins, and their epoch; None without ``location``."""
    if location is None:
        return None
    objects = location.open()
    return RunCheckpoints(objects.url, HandOverWriter.begin(objects, application_id, int(time.time() * 1000)))


def refuse_other_checkpoints(begun: RunCheckpoints | None, location: ObjectLocation | None) -> None:
    """Raise ConfigError if an unfinished run was begun with another place for checkpoints."""
    then, now = None if begun is None else begun.url, None if location is None else location.open().url
    if then != now:
        raise ConfigError(
            f"--resume: state.checkpoint.uri was {then or 'not set'} when the unfinished backfill began, and is "
            f"{now or 'not set'} now: set it as it was, or run the backfill without --resume, which begins again"
        )


@dataclass(frozen=True)
class CheckpointHandOver:
    """The hand-over of one run by checkpoints; ``stages`` are those of its plan."""

    config: StreamsConfig
    admin: Admin
    stages: Sequence[Stage]
    writer: HandOverWriter

    def committed(self) -> bool:
        """Returns True if the run has handed over already: then only its offsets are missing. Raises
        CheckpointSupersededError if a live application has written checkpoints since the run began."""
        return self.writer.committed() is not None

    def commit(self, parts: Mapping[str, HandedOverTask], offsets: Offsets, sinks: Iterable[str]) -> None:
        """Hand over the stores of ``parts``, which are those of the changelogs as they end now, and of ``offsets``.
        ``sinks``: the topics with results. Without parts, as if there was nothing to read, the last hand-over stays.

        Raises CheckpointSupersededError like :meth:`committed`, and if another backfill has handed over."""
        if not parts:
            return
        of_task = self._inputs_by_task(parts, offsets)
        changelogs = {
            TopicPartition(store.changelog, TaskId.parse(task).partition)
            for task, part in parts.items()
            for store in part.stores.values()
            if store.changelog is not None
        }
        counts = self.admin.topics()
        written = [TopicPartition(topic, number) for topic in sinks for number in range(counts.get(topic, 0))]
        ends = self.admin.end_offsets([*(changelogs - offsets.keys()), *written])
        ids = self.admin.topic_ids({at.topic for at in (*changelogs, *written, *offsets)})
        now_ms = int(time.time() * 1000)
        tasks = {}
        for task, part in parts.items():
            number = TaskId.parse(task).partition
            stores = {name: _at_end(store, number, offsets, ends, ids) for name, store in part.stores.items()}
            tasks[task] = replace(part, taken_at_ms=now_ms, stores=stores, inputs=_inputs(of_task[task], ids))
        positions: Sinks = {}
        for at in written:
            positions.setdefault(at.topic, {})[at.partition] = SinkPosition(ends[at], ids.get(at.topic))
        self.writer.commit(tasks, positions)

    def _inputs_by_task(self, tasks: Iterable[str], offsets: Offsets) -> dict[str, Offsets]:
        sources = {
            sub.id: TaskProgram.of([sub], self.config).sources for stage in self.stages for sub in stage.subtopologies
        }
        found: dict[str, Offsets] = {}
        for task in tasks:
            subtopology, number = TaskId.parse(task)
            found[task] = {
                at: offset
                for at, offset in offsets.items()
                if at.partition == number and at.topic in sources[subtopology]
            }
        return found


def _at_end(
    store: StoreInCheckpoint,
    partition: int,
    offsets: Offsets,
    ends: Mapping[TopicPartition, int],
    ids: Mapping[str, str],
) -> StoreInCheckpoint:
    if store.changelog is None:
        return store
    at = TopicPartition(store.changelog, partition)
    # The input itself may restore a table.
    end = offsets[at].offset if at in offsets else ends[at]
    return replace(store, changelog_topic_id=ids.get(at.topic), changelog_offset=end)


def _inputs(offsets: Offsets, ids: Mapping[str, str]) -> Inputs:
    inputs: Inputs = {}
    for at, found in offsets.items():
        inputs.setdefault(at.topic, {})[at.partition] = InputInCheckpoint(
            found.offset, found.metadata, ids.get(at.topic)
        )
    return inputs
