"""The stores of a live application at an audit point, for the process that audits it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import ray
from ray import ObjectRef, cloudpickle
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from penstock.actors.audit_messages import AuditAnswer, AuditStep, TaskImage
from penstock.cluster.application_metadata import ApplicationMetadata
from penstock.cluster.client.actor_changes import ask_coordinator
from penstock.cluster.client.operations_log import log_operation
from penstock.cluster.queries.audit_point import AuditPoint, AuditPointError, Placed, PointTaker, Wave
from penstock.cluster.queries.image_reader import Builders, ImageReader
from penstock.cluster.ray_cluster import connections
from penstock.cluster.ray_cluster.named_actors import require_coordinator
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.errors import ApplicationStateError, StateStoreError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.serdes import Serde
from penstock.kafka.clients import ConfluentClients
from penstock.state.builders import AnyStoreBuilder
from penstock.state.key_sample import KeySample
from penstock.state.range_digests import RangeDigest, Row

_ANSWER_S = 10.0
"""Seconds that an actor may take to answer, beyond those that it has to do a step."""
_LOOK_AGAIN_S = 0.05
_WITHOUT_IT = (
    "To audit the newest checkpoints of an application that does not run, which must have state.checkpoint.uri: "
    "give --checkpoint"
)
_READ_S = 3600.0
"""Seconds that the reading of one store of one task may take."""


class LiveImages:
    """The images of all tasks at one audit point, read by one Ray actor on each node that has some."""

    def __init__(self, point: AuditPoint, builders: Builders) -> None:
        self._point = point
        by_node: dict[str, list[TaskImage]] = {}
        for each in point.images.values():
            if each.image.layouts:
                by_node.setdefault(each.node_id, []).append(each.image)
        plain: bytes = cloudpickle.dumps(_without_serdes(builders))  # type: ignore[no-untyped-call]
        self._readers = {node: _reader_on(node, tuple(images), plain) for node, images in by_node.items()}

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        """The input offsets that the stores stand for."""
        return self._point.offsets

    @property
    def held_s(self) -> float:
        """Seconds for which some tasks took no records."""
        return self._point.held_s

    @property
    def layouts(self) -> Mapping[TaskId, Mapping[str, str]]:
        """The forms of the rows of each store that can be compared, by task."""
        return {task: each.image.layouts for task, each in self._point.images.items()}

    def why_absent(self, task_ids: Sequence[TaskId], store: str) -> str:
        """Returns the reason for which the images do not have a store."""
        return "it is kept in memory, and has no rows"

    def digests(self, sample: KeySample | None) -> dict[tuple[TaskId, str], list[RangeDigest]]:
        """Returns the digests of all stores, of all rows or of those in ``sample``. The nodes work at the same
        time."""
        asked: dict[tuple[TaskId, str], ObjectRef[Any]] = {}
        for task, each in self._point.images.items():
            for store in each.image.layouts:
                asked[task, store] = self._readers[each.node_id].digests.remote(task, store, sample)
        return {which: _got(which, ref) for which, ref in asked.items()}

    def rows(self, task: TaskId, store: str, begin: bytes, end: bytes | None, sample: KeySample | None) -> list[Row]:
        """Returns the rows of one range."""
        node = self._point.images[task].node_id
        return list(_got((task, store), self._readers[node].rows.remote(task, store, begin, end, sample)))

    def close(self) -> None:
        """Remove the images from the disks, and end the readers."""
        for reader in self._readers.values():
            try:
                ray.get(reader.close.remote(), timeout=_ANSWER_S)
            except (RayError, GetTimeoutError):
                continue  # the stream actors of its node remove them, when their lease is over
            finally:
                ray.kill(reader)


def take_live_images(
    application_id: str,
    clients: ConfluentClients,
    waves: Sequence[Wave],
    sources: Mapping[TaskId, frozenset[TopicPartition]],
    builders: Builders,
    within_s: float,
) -> LiveImages:
    """Take an audit point of a running application, in ``within_s`` seconds; a rebalance may take as long before that.

    Raises AuditPointError if that is not possible: then the application continues as if nothing had been asked. Raises
    ApplicationStateError if it does not run here.
    """
    try:
        connections.connect_to(application_id)
        coordinator = require_coordinator(application_id)
    except ApplicationStateError as error:
        raise ApplicationStateError(f"{error}. {_WITHOUT_IT}") from error
    status = _once_rebalanced(coordinator, within_s)
    metadata: ApplicationMetadata | None = ask_coordinator(coordinator, "metadata")
    if status is None or metadata is None or status.state is not ApplicationState.RUNNING:
        state = "has ended" if status is None else f"is {status.state.value}"
        raise AuditPointError(
            f"application {application_id!r} {state}: only one that is RUNNING can be audited live. {_WITHOUT_IT}"
        )
    epochs = {actor.actor_id: actor.epoch for actor in status.actors}
    placement = {
        task: Placed(actor, epochs[actor], sources[task])
        for task, actor in status.placement.items()
        if actor in epochs and task in sources
    }
    name = f"{time.strftime('%Y%m%dT%H%M%S')}-{uuid.uuid4().hex[:8]}"
    ends = _StableEnds(clients, within_s)
    outcome = "failed"
    try:
        taker = PointTaker(name, placement, _asking(metadata.actors), ends, time.monotonic, within_s)
        point = taker.take(waves)
        outcome = f"done, {point.held_s:.1f} s on hold"
    except AuditPointError as error:
        outcome = f"refused: {error}"
        raise
    finally:
        ends.close()
        log_operation(coordinator, f"audit point {name}", outcome)
    return LiveImages(point, builders)


def _once_rebalanced(coordinator: Any, within_s: float) -> ApplicationStatus | None:
    """Returns the status as soon as it is not REBALANCING, or the last one after ``within_s``."""
    deadline = time.monotonic() + within_s
    while True:
        status: ApplicationStatus | None = ask_coordinator(coordinator, "status")
        if status is None or status.state is not ApplicationState.REBALANCING or time.monotonic() >= deadline:
            return status
        time.sleep(_LOOK_AGAIN_S)


def _asking(actors: Mapping[str, Any]) -> Callable[[Mapping[str, AuditStep]], Mapping[str, AuditAnswer]]:
    def ask(steps: Mapping[str, AuditStep]) -> Mapping[str, AuditAnswer]:
        asked = {actor: actors[actor].audit.remote(step) for actor, step in steps.items() if actor in actors}
        answers = {actor: AuditAnswer(refused="it is gone") for actor in steps.keys() - asked.keys()}
        for actor, ref in asked.items():
            within_s = getattr(steps[actor], "within_s", 0.0)
            try:
                answers[actor] = ray.get(ref, timeout=within_s + _ANSWER_S)
            except GetTimeoutError:
                answers[actor] = AuditAnswer(refused=f"it has not answered for {within_s + _ANSWER_S:.0f} s")
            except RayTaskError as error:
                answers[actor] = AuditAnswer(refused=str(error.cause or error))
            except RayError as error:
                answers[actor] = AuditAnswer(refused=f"it is lost: {str(error).partition(chr(10))[0]}")
        return answers

    return ask


class _StableEnds:
    """Ends of partitions without an open transaction: what is in them is decided."""

    def __init__(self, clients: ConfluentClients, within_s: float) -> None:
        self._consumer = clients.consumer()
        self._admin = clients.admin()
        self._until_s = time.monotonic() + within_s

    def __call__(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        while True:
            logs = self._admin.high_watermarks(partitions)
            stable = self._consumer.fetch_end_offsets(partitions)
            # A commit is answered before its markers are written.
            open_ones = sorted(p for p in partitions if stable[p] < logs[p])
            if not open_ones:
                return stable
            if time.monotonic() >= self._until_s:
                raise AuditPointError(
                    f"a transaction is open in {open_ones[0]}, from offset {stable[open_ones[0]]} on: the audit cannot "
                    "know what will be read of it. Run it again when the transaction has ended"
                )
            time.sleep(_LOOK_AGAIN_S)

    def close(self) -> None:
        self._consumer.close()


def _reader_on(node: str, images: tuple[TaskImage, ...], builders: bytes) -> Any:
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(_ImageReaderActor).options(num_cpus=0, scheduling_strategy=there).remote(images, builders)


class _ImageReaderActor:
    """The Ray actor around a :class:`ImageReader`. It ends with the process that audits."""

    def __init__(self, images: tuple[TaskImage, ...], builders: bytes) -> None:
        ImageReader.give_way()
        self._reader = ImageReader(images, cloudpickle.loads(builders))

    def digests(self, task: TaskId, store: str, sample: KeySample | None) -> list[RangeDigest]:
        return self._reader.digests(task, store, sample)

    def rows(self, task: TaskId, store: str, begin: bytes, end: bytes | None, sample: KeySample | None) -> list[Row]:
        return self._reader.rows(task, store, begin, end, sample)

    def close(self) -> None:
        self._reader.close()


def _got(which: tuple[TaskId, str], ref: ObjectRef[Any]) -> Any:
    task, store = which
    try:
        return ray.get(ref, timeout=_READ_S)
    except RayTaskError as error:
        raise StateStoreError(f"store {store!r} of task {task} cannot be read: {error.cause or error}") from error
    except (RayError, GetTimeoutError) as error:
        raise StateStoreError(
            f"store {store!r} of task {task} cannot be read: its node is lost, or does not answer. Run the audit again"
        ) from error


def _without_serdes(builders: Builders) -> Builders:
    """Rows are compared as bytes: so a node need not have the modules of the program's serdes."""
    return {sub: {name: _plain(builder) for name, builder in stores.items()} for sub, stores in builders.items()}


def _plain(builder: AnyStoreBuilder) -> AnyStoreBuilder:
    serdes: dict[str, Any] = {
        each.name: None for each in fields(builder) if isinstance(getattr(builder, each.name), Serde)
    }
    return replace(builder, **serdes)
