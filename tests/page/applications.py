"""Applications for the page, as values: a topology, and the statuses that a coordinator of it would report."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import penstock as ps
from penstock.actors.commit_stops import CommitStops
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.programs.program_drawing import program_view
from penstock.cluster.read_side import (
    ActorStatus,
    ApplicationHistory,
    ApplicationState,
    ApplicationStatus,
    TaskState,
    TaskStatus,
)
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import NODE, STATE, TASK, THREAD, TOPIC, Measured
from penstock.topology.physical.topology import SinkNode, SourceNode, Subtopology, Topology
from tests.api.fake import APPLICATION_ID, FakeReadSide, FakeStore

STRINGS = ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())


def with_price(order: str) -> str:
    """A user's function, whose name, file and line the page shows."""
    return order


def orders_topology() -> Topology:
    """Orders that are priced, and counted per customer: two sub-topologies, five operators and a store."""
    builder = ps.StreamsBuilder()
    grouped = ps.Grouped.with_(ps.Serdes.string(), ps.Serdes.string()).with_name("by-customer")
    (
        builder.stream("orders", STRINGS)
        .filter(lambda customer, order: bool(order), named=ps.Named.as_("not-empty"))
        .map_values(with_price, named=ps.Named.as_("price"))
        .group_by(lambda order: order, grouped)
        .count(ps.Materialized.as_("per-customer"))
        .to_stream()
        .to("customers", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.long()))
    )
    return builder.build()


def wide_topology(subtopologies: int = 20, operators: int = 5) -> Topology:
    """Many sub-topologies, one after the other, of ``operators`` operators each, with source and sink."""
    builder = ps.StreamsBuilder()
    for number in range(subtopologies):
        stream = builder.stream(f"stage-{number}", STRINGS)
        for each in range(operators - 2):
            stream = stream.map_values(with_price, named=ps.Named.as_(f"stage-{number}-step-{each}"))
        stream.to(f"stage-{number + 1}", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.string()))
    return builder.build()


def runs(side: FakeReadSide, topology: Topology, status: ApplicationStatus) -> None:
    """Has ``side`` answer for an application with this topology and status, whose stores are empty."""
    side.failure = None
    side.current = status
    spec = ApplicationSpec(topology, StreamsConfig.of({"application.id": APPLICATION_ID}))
    side.programs = {1: program_view(spec, 1)}
    side.fakes = {store: FakeStore(ps.Serdes.string()) for store in topology.store_builders}
    side.records.peeks, side.records.counts = {}, {}
    side.remembered = ApplicationHistory(began_ms=0)


def status_of(
    topology: Topology, partitions: int = 4, actors: int = 2, step: int = 0, busy: float = 0.4
) -> ApplicationStatus:
    """Returns the status of an application that runs, in which all is well. Figures depend on ``step`` alone: the
    counts grow with it, and rates and lags change a little."""
    tasks = [(sub, TaskId(sub.id, number)) for sub in topology.subtopologies for number in range(partitions)]
    own: dict[str, list[TaskStatus]] = {f"stream/{number}": [] for number in range(actors)}
    for number, (sub, task_id) in enumerate(tasks):
        own[f"stream/{number % actors}"].append(_task(sub, task_id, step, busy / max(1, len(tasks) / actors)))
    return ApplicationStatus(
        APPLICATION_ID,
        ApplicationState.RUNNING,
        epoch=3,
        actors=tuple(
            _actor(actor_id, number, tuple(kept), step, busy) for number, (actor_id, kept) in enumerate(own.items())
        ),
        placement={task.task_id: actor_id for actor_id, kept in own.items() for task in kept},
        http_address="http://127.0.0.1:8080",
    )


def with_task(status: ApplicationStatus, task_id: str, **fields: Any) -> ApplicationStatus:
    """Returns ``status`` with other fields of one task."""
    return replace(
        status,
        actors=tuple(
            replace(
                actor,
                tasks=tuple(replace(task, **fields) if str(task.task_id) == task_id else task for task in actor.tasks),
            )
            for actor in status.actors
        ),
    )


def with_actor(status: ApplicationStatus, actor_id: str, **fields: Any) -> ApplicationStatus:
    """Returns ``status`` with other fields of one actor."""
    actors = tuple(replace(actor, **fields) if actor.actor_id == actor_id else actor for actor in status.actors)
    return replace(status, actors=actors)


def lags(topic: str, partition: int, records: int) -> Mapping[TopicPartition, int]:
    """The field ``lags`` of a task with one source partition."""
    return {TopicPartition(topic, partition): records}


def _actor(actor_id: str, number: int, tasks: tuple[TaskStatus, ...], step: int, busy: float) -> ActorStatus:
    measured: Measured = {
        (THREAD, "process-ratio"): busy,
        (THREAD, "punctuate-ratio"): 0.01,
        (THREAD, "commit-ratio"): 0.02,
        (THREAD, "poll-ratio"): 0.03,
        (THREAD, "commit-rate"): 1.0,
    }
    return ActorStatus(
        actor_id=actor_id,
        node_id=f"node-{number % 3}",
        pid=4711 + number,
        epoch=3,
        commits=7 + step,
        commit_stops=CommitStops(
            7, 7, per_commit_avg_ms=0.5, per_commit_max_ms=1.25, latency_avg_ms=8.5, latency_max_ms=12.25
        ),
        tasks=tasks,
        measured=measured,
        running_s=100.0 + step,
        idle_s=50.0,
    )


def _task(sub: Subtopology, task_id: TaskId, step: int, busy: float) -> TaskStatus:
    chance = random.Random(f"{task_id}/{step}")
    per_s = 1_000 + chance.randrange(100)
    sources = [topic for source in sub.sources for topic in source.topics]
    at = {TopicPartition(_full(source, topic), task_id.partition): 100_000 + 1_000 * step
          for source in sub.sources for topic in source.topics}  # fmt: skip
    measured: Measured = {(TASK, "process-rate"): float(per_s), (TASK, "process-ratio"): busy}
    for node in sub.nodes:
        measured[NODE, "records-rate", node.name] = float(per_s)
        measured[NODE, "busy-ratio", node.name] = round(busy / len(sub.nodes) * (1 + chance.random() / 10), 4)
        if isinstance(node, SourceNode):
            measured[NODE, "process-rate", node.name] = float(per_s)
            for topic in node.topics:
                measured[TOPIC, "records-consumed-total", node.name, _full(node, topic)] = 100_000 + 1_000 * step
                measured[TOPIC, "bytes-consumed-total", node.name, _full(node, topic)] = 10_000_000 + 100_000 * step
        elif isinstance(node, SinkNode) and isinstance(node.topic, str):
            topic = f"{APPLICATION_ID}-{node.topic}" if node.internal else node.topic
            measured[TOPIC, "records-produced-total", node.name, topic] = 100_000 + 1_000 * step
            measured[TOPIC, "bytes-produced-total", node.name, topic] = 10_000_000 + 100_000 * step
    for store in sub.stores:
        measured[STATE, "estimate-num-keys", store.name] = 5_000 + step
        measured[STATE, "live-sst-files-size", store.name] = 1_000_000
    assert sources
    return TaskStatus(
        task_id,
        TaskState.RUNNING,
        records_processed=100_000 + 1_000 * step,
        lags={partition: chance.randrange(50) for partition in at},
        committed=at,
        positions=at,
        measured=measured,
        behind_s=round(chance.random(), 1),
    )


def _full(source: SourceNode, topic: str) -> str:
    return f"{APPLICATION_ID}-{topic}" if source.internal else topic


def grown(status: ApplicationStatus, records: int) -> ApplicationStatus:
    """Returns ``status`` after each task has processed more ``records``; all other figures stay."""
    return replace(status, actors=tuple(_grown(actor, records) for actor in status.actors))


def _grown(actor: ActorStatus, records: int) -> ActorStatus:
    def more(task: TaskStatus) -> TaskStatus:
        measured: Measured = {
            key: value + records if key[0] == TOPIC and isinstance(value, int) else value
            for key, value in task.measured.items()
        }
        return replace(task, records_processed=task.records_processed + records, measured=measured)

    return replace(actor, tasks=tuple(more(task) for task in actor.tasks))


WIDE_PARTITIONS, WIDE_ACTORS = 10, 20
"""With ``wide_topology()``: 200 tasks and 100 operators."""


def wide_status(topology: Topology, step: int) -> ApplicationStatus:
    """Returns the status of a wide application at a step; all figures are others than those of the step before."""
    return status_of(topology, WIDE_PARTITIONS, WIDE_ACTORS, step)


class Changing(FakeReadSide):
    """A wide application all of whose figures change each time it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.step = wide_topology(), 0
        runs(self, self.wide, wide_status(self.wide, 0))

    async def status(self) -> ApplicationStatus:
        self.step += 1
        return wide_status(self.wide, self.step)
