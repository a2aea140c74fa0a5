"""The stores of an application's newest checkpoints, for an audit that does not ask the application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from penstock.checkpoints.manifest import CheckpointManifest
from penstock.checkpoints.repository import CheckpointRepository
from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.step_progress import Progress, StepProgress
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.range_reader import has_records
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.audit.checkpoint_offsets import Checkpoints, inputs_of, unsettled
from penstock.pipeline.audit.contracts import StoreOfTask
from penstock.pipeline.audit.plan import AuditPlan
from penstock.pipeline.reading.kafka_history import KafkaHistory
from penstock.pipeline.task_hosts.stores import TaskDisk, new_run_id, remove_left
from penstock.state.builders import AnyStoreBuilder
from penstock.state.compared_rows import digests_of_store, rows_of_store
from penstock.state.contracts import TaskStores
from penstock.state.key_sample import KeySample
from penstock.state.range_digests import RangeDigest, Row

_STORES = "stores"


@dataclass(frozen=True)
class NewestCheckpoints:
    """Takes the newest checkpoint of each task; the application need not run, and is not asked."""

    config: StreamsConfig
    progress: Progress = lambda now: None

    def __call__(self, plan: AuditPlan, clients: ConfluentClients) -> CheckpointStores:
        """Returns the stores of the checkpoints. Raises ConfigError without ``state.checkpoint.uri``,
        ApplicationStateError if a task has no checkpoint or no store can be audited by them, CheckpointDamagedError,
        and ObjectStoreError."""
        self.progress(StepProgress("looking for checkpoints"))
        repository = self._repository()
        checkpoints = self._newest(plan, repository)
        _require_same_topics(checkpoints, clients.admin().topic_ids(_topics(checkpoints)))
        committed = {at: it.offset for at, it in clients.admin().committed(self.config.application_id).items()}
        reason = unsettled(plan.sources, checkpoints, committed, _Remaining(KafkaHistory(clients)))
        if reason is None:
            return self._fetched(plan, repository, checkpoints, committed, "")
        alone = {task: it for task, it in checkpoints.items() if plan.sources[task] <= plan.from_outside}
        if not alone:
            raise ApplicationStateError(
                f"no store can be audited by the checkpoints: all are of tasks behind repartition topics, and {reason}"
                ". Wait until the application has processed everything and has taken checkpoints, or audit it live, "
                "without --checkpoint"
            )
        offsets = {at: offset for it in alone.values() for at, offset in inputs_of(it).items()}
        return self._fetched(plan, repository, alone, offsets, reason)

    def _repository(self) -> CheckpointRepository:
        url = self.config.state_checkpoint_uri
        if url is None:
            raise ConfigError("--checkpoint: state.checkpoint.uri is not set, so this application has no checkpoints")
        location = ObjectLocation(url, self.config.object_store_settings)
        return CheckpointRepository(location.open(), self.config.application_id)

    def _newest(self, plan: AuditPlan, repository: CheckpointRepository) -> Checkpoints:
        found: dict[TaskId, CheckpointManifest] = {}
        for task in sorted(plan.sources):
            if not any(builder.persistent for builder in plan.builders[task.subtopology].values()):
                continue
            newest = next(repository.newest_first(str(task)), None)
            if newest is None:
                raise ApplicationStateError(
                    f"task {task} has no checkpoint at {self.config.state_checkpoint_uri}: the application takes one "
                    "of each task with stores on disk when state.checkpoint.interval.ms has passed. Run the audit then"
                )
            found[task] = newest
        return found

    def _fetched(
        self,
        plan: AuditPlan,
        repository: CheckpointRepository,
        checkpoints: Checkpoints,
        offsets: Mapping[TopicPartition, int],
        reason: str,
    ) -> CheckpointStores:
        taken = CheckpointStores(plan.builders, checkpoints, offsets, reason)
        # Before RocksDB opens them: it deletes rows of another form.
        plan.require_layouts(taken.layouts)
        self.progress(StepProgress("downloading checkpoints"))
        taken.fetch(repository)
        return taken


def _topics(checkpoints: Checkpoints) -> list[str]:
    return sorted({topic for it in checkpoints.values() for topic in it.inputs})


def _require_same_topics(checkpoints: Checkpoints, ids: Mapping[str, str]) -> None:
    for task, it in sorted(checkpoints.items()):
        for topic, partitions in it.inputs.items():
            for number, found in partitions.items():
                if found.topic_id is not None and ids.get(topic, found.topic_id) != found.topic_id:
                    raise ApplicationStateError(
                        f"topic {topic!r} was deleted and made again since checkpoint {it.name} of task {task}, which "
                        f"has records of the old one up to offset {found.offset} of partition {number}: they cannot be "
                        "computed again"
                    )


@dataclass(frozen=True)
class _Remaining:
    """Looks if a partition has records from an offset on: markers of transactions are none."""

    kafka: KafkaHistory

    def __call__(self, at: TopicPartition, offset: int) -> bool:
        there = self.kafka.available([at])[at]
        with closing(self.kafka.clients.restore_consumer()) as consumer:
            return has_records(consumer, at, OffsetRange(max(offset, there.begin), there.end))


@dataclass
class CheckpointStores:
    """The stores of one checkpoint of each task, in a directory of this machine.

    ``reason``: the reason for which the checkpoints of tasks behind repartition topics are left out; empty if all
    tasks are here.
    """

    builders: Mapping[int, Mapping[str, AnyStoreBuilder]]
    checkpoints: Checkpoints
    offsets: Mapping[TopicPartition, int]
    reason: str
    held_s: float = 0.0
    _disks: ExitStack = field(default_factory=ExitStack)
    _by_task: dict[TaskId, TaskDisk] = field(default_factory=dict)
    _open: dict[TaskId, TaskStores] = field(default_factory=dict)

    @property
    def layouts(self) -> Mapping[TaskId, Mapping[str, str]]:
        """The forms of the rows of each store, by task."""
        return {task: {name: it.form for name, it in of.stores.items()} for task, of in self.checkpoints.items()}

    def why_absent(self, task_ids: Sequence[TaskId], store: str) -> str:
        """Returns the reason for which a store of these tasks is not in the checkpoints."""
        if not all(self.builders[task.subtopology][store].persistent for task in task_ids):
            return "it is kept in memory, and checkpoints have stores on disk only"
        if self.reason and not any(task in self.checkpoints for task in task_ids):
            return (
                f"its tasks are behind a repartition topic, and the checkpoints do not belong together: {self.reason}"
            )
        return "the checkpoints of its tasks do not have it"

    def fetch(self, repository: CheckpointRepository) -> None:
        """Download all checkpoints. Raises what the repository raises."""
        remove_left()
        run = new_run_id()
        with ExitStack() as disks:
            for task, manifest in sorted(self.checkpoints.items()):
                disk = self._by_task[task] = TaskDisk(run, task)
                disks.callback(disk.close)
                repository.fetch(manifest, disk.directory / _STORES)
            self._disks = disks.pop_all()

    def digests(self, sample: KeySample | None) -> Mapping[StoreOfTask, Sequence[RangeDigest]]:
        """Returns the digests of all rows that an audit compares, or of those in ``sample``."""
        found = {}
        for task, stores in sorted(self.layouts.items()):
            for name in stores:
                builder = self.builders[task.subtopology][name]
                found[task, name] = digests_of_store(builder, self._stores(task).store(name), sample)
        return found

    def rows(self, task: TaskId, store: str, begin: bytes, end: bytes | None, sample: KeySample | None) -> list[Row]:
        """Returns the rows of one range, by key."""
        builder = self.builders[task.subtopology][store]
        return rows_of_store(builder, self._stores(task).store(store), begin, end, sample)

    def close(self) -> None:
        """Close the stores, and remove the files."""
        self._open.clear()
        self._disks.close()

    def _stores(self, task: TaskId) -> TaskStores:
        if task not in self._open:
            builders = self.builders[task.subtopology]
            self._open[task] = self._by_task[task].open(
                _STORES, [builders[name] for name in self.checkpoints[task].stores]
            )
        return self._open[task]
