"""Audits without Ray, Kafka and Spark: a stream loop on a broker in memory, and stages that run in this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.actors.audit_messages import AuditAnswer, AuditStep
from penstock.actors.loop.lease import Lease
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.spec import ApplicationSpec
from penstock.actors.task_host.task_images import open_image
from penstock.cluster.queries.audit_point import AuditPoint, Placed, PointTaker, Wave
from penstock.cluster.queries.image_reader import ImageReader
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.pipeline.audit import audit as module
from penstock.pipeline.audit.audit import AuditOptions, AuditReport, audit
from penstock.pipeline.audit.plan import AuditPlan
from penstock.state.key_sample import KeySample
from penstock.state.range_digests import RangeDigest, Row
from penstock.tasks.program import TaskPrograms
from penstock.testing.fake_broker import FakeBroker, FakeRecord
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.topic_plan import plan_topics
from penstock.topology.physical.topology import Topology
from tests.actors.rig import ManualClock, settle
from tests.actors.rig_coordinator import FakeCoordinator
from tests.waiting import PATIENCE_S

APPLICATION = "app"
PARTITIONS = 2
Corrupt = Callable[[bytes, bytes], "tuple[bytes, bytes | None] | None"]
"""Gets a row; returns the row to write, or None to leave it. A value of None deletes the row."""


class Application:
    """A running application, all of whose tasks are on one actor."""

    def __init__(self, topology: Topology, state_dir: Path, topics: Iterable[str], **config: Any) -> None:
        self.broker = FakeBroker()
        settings = {"application.id": APPLICATION, "state.dir": state_dir, "commit.interval.ms": 1000}
        settings.update({key.replace("_", "."): value for key, value in config.items()})
        self.config = StreamsConfig.of(settings)
        exactly_once = self.config.processing_guarantee == "exactly_once_v2"
        self.clients = FakeClients(APPLICATION, self.broker, read_committed=exactly_once)
        self.topology = topology
        admin = self.clients.admin()
        admin.create_topics(NewTopic(topic, PARTITIONS) for topic in topics)
        self.plan = ensure_topics(admin, partial(plan_topics, topology, self.config))
        self.coordinator = FakeCoordinator(self.broker, exactly_once)
        if exactly_once:
            self.coordinator.join()
        self.clock = ManualClock()
        spec = ApplicationSpec(topology, self.config)
        lease = Lease.unlimited(self.clock.monotonic_s)
        self.loop = StreamLoop(
            spec, "stream/1", self.clients, self.coordinator.commit, self.clock, "node", 1, lease=lease
        )
        self.coordinator.watch(self.loop, "stream/1")
        self.loop.assign(1, self.plan.tasks.partitions)
        self.settle()

    def settle(self) -> None:
        for _ in range(3):
            settle(self.loop, 100_000)
            self.clock.now_ms += 1001
            settle(self.loop, 100_000)

    def send(self, topic: str, key: str | None, value: bytes | None, timestamp: int, partition: int = 0) -> None:
        self.broker.append(topic, FakeRecord(None if key is None else key.encode(), value, timestamp, None), partition)

    def ask(self, steps: Mapping[str, AuditStep]) -> dict[str, AuditAnswer]:
        asked = {actor: self.loop.audit(step) for actor, step in steps.items()}
        while not all(each.done() for each in asked.values()):
            self.loop.step()
            self.clock.now_ms += 5
        return {actor: each.result(PATIENCE_S) for actor, each in asked.items()}

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self.clients.consumer().fetch_end_offsets(partitions)

    def images(self, plan: AuditPlan, clients: Any, corrupted: Mapping[str, Corrupt]) -> Images:
        placement = {task: Placed("stream/1", 1, sources) for task, sources in plan.sources.items()}
        taker = PointTaker("p", placement, self.ask, self.ends, self.clock.monotonic_s, 60.0)
        point = taker.take([Wave(wave.tasks, wave.reads, wave.intake) for wave in plan.waves])
        for task, each in point.images.items():
            self._corrupt(task, Path(each.image.folder), each.image.layouts, corrupted)
        return Images(point, plan)

    def _corrupt(
        self, task: TaskId, folder: Path, layouts: Mapping[str, str], corrupted: Mapping[str, Corrupt]
    ) -> None:
        builders = TaskPrograms(self.topology, self.config).of(task.subtopology).stores
        wanted = {name: corrupted[name] for name in layouts if name in corrupted}
        if not wanted:
            return
        stores = open_image(folder, {name: builders[name] for name in layouts})
        for name, corrupt in wanted.items():
            batch = stores.new_batch()
            for key, row in list(stores.store(name).scan(None, None)):
                if (changed := corrupt(key, row)) is not None:
                    batch.delete(name, key)
                    if changed[1] is not None:
                        batch.put(name, changed[0], changed[1])
            stores.write(batch, {})
        stores.close()

    def audit(
        self,
        patched: pytest.MonkeyPatch,
        corrupted: Mapping[str, Corrupt] | None = None,
        options: AuditOptions | None = None,
    ) -> AuditReport:
        """Returns the report of an audit. ``corrupted``: changes rows of a store's images by a function."""
        return self.audited(patched, partial(self.images, corrupted=corrupted or {}), options)

    def audited(self, patched: pytest.MonkeyPatch, take: Any, options: AuditOptions | None = None) -> AuditReport:
        """Returns the report of an audit of the stores that ``take`` takes."""

        @contextmanager
        def inline(*where: object, **settings: object) -> Iterator[InlineSpark]:
            yield InlineSpark()

        clients = SimpleNamespace(of=lambda config: self.clients)
        patched.setattr(module, "ConfluentClients", clients)
        patched.setattr(module, "spark_session", inline)
        patched.setattr(module, "require_spark", lambda: None)
        patched.setattr(module, "tasks_of", lambda context: (0, 0))
        return audit(self.topology, self.config, take, "local[1]", options=options)


class Images:
    """The images of an audit point, read in this process."""

    def __init__(self, point: AuditPoint, plan: AuditPlan) -> None:
        self._point = point
        self._reader = ImageReader([each.image for each in point.images.values()], plan.builders)

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        return self._point.offsets

    @property
    def held_s(self) -> float:
        return self._point.held_s

    @property
    def layouts(self) -> Mapping[TaskId, Mapping[str, str]]:
        return {task: each.image.layouts for task, each in self._point.images.items()}

    def why_absent(self, task_ids: Sequence[TaskId], store: str) -> str:
        return "it is kept in memory, and has no rows"

    def digests(self, sample: KeySample | None) -> Mapping[tuple[TaskId, str], Sequence[RangeDigest]]:
        return {
            (task, store): self._reader.digests(task, store, sample)
            for task, stores in self.layouts.items()
            for store in stores
        }

    def rows(self, task: TaskId, store: str, begin: bytes, end: bytes | None, sample: KeySample | None) -> list[Row]:
        return self._reader.rows(task, store, begin, end, sample)

    def close(self) -> None:
        self._reader.close()


class InlineSpark:
    """Runs ``mapInArrow`` over numbers, here and now."""

    sparkContext = SimpleNamespace(defaultParallelism=1)  # noqa: N815  # Spark's name

    def range(self, begin: int, end: int, step: int, partitions: int) -> _Frame:
        return _Frame([pa.RecordBatch.from_pydict({"id": [number]}) for number in range(begin, end, step)])


class _Frame:
    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._batches = batches

    def mapInArrow(  # noqa: N802  # Spark's name
        self, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: object
    ) -> _Frame:
        return _Frame([each for batch in self._batches for each in function(iter([batch]))])

    def coalesce(self, count: int) -> _Frame:
        return self

    def collect(self) -> list[dict[str, Any]]:
        return [row for batch in self._batches for row in batch.to_pylist()]
