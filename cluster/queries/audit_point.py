"""Takes an audit point: the moment at which input offsets and stores of all tasks belong together.

The committed offset in a repartition topic does not say which records of source topics it stands for. So the tasks that
write repartition topics take no records of source topics for a moment, until those that read these topics have read
them to their end. Wave by wave, each after those that write what it reads (docs/decisions/0034-the-audit-point.md).
Pure: actors, offsets and time come from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.actors.audit_messages import AuditAnswer, AuditStep, EndHold, HoldIntake, TakeImages, TaskImage
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import TaskId, TopicPartition

Ask = Callable[[Mapping[str, AuditStep]], Mapping[str, AuditAnswer]]
"""Asks stream actors for a step each. An actor that cannot answer has a refusal."""
Ends = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
"""Returns the ends of partitions, once no transaction is open in them. Raises AuditPointError if one stays open."""


class AuditPointError(ApplicationStateError):
    """No audit point could be taken. The application continues as if none had been tried."""


@dataclass(frozen=True)
class Wave:
    """Tasks whose images are taken together: those of one sub-topology, or of some that write to each other.

    ``reads``: the partitions of repartition topics that they read. ``intake``: the partitions of source topics that
    they take no records of from then on; none if they write no repartition topic, because nobody waits for them.
    """

    tasks: frozenset[TaskId]
    reads: frozenset[TopicPartition]
    intake: frozenset[TopicPartition]


@dataclass(frozen=True)
class Placed:
    """A task, its actor, the epoch of the actor's assignment, and the partitions that the task reads."""

    actor: str
    epoch: int
    sources: frozenset[TopicPartition]


@dataclass(frozen=True)
class ImageOnNode:
    """The image of a task, and the Ray node that has its folder."""

    image: TaskImage
    node_id: str


@dataclass(frozen=True)
class AuditPoint:
    """The images of all tasks at one moment. ``held_s``: for how long some tasks took no records."""

    name: str
    images: Mapping[TaskId, ImageOnNode]
    held_s: float

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The committed input offsets of all tasks at this moment."""
        return {
            partition: offset.offset
            for each in self.images.values()
            for partition, offset in each.image.offsets.items()
        }


class PointTaker:
    """Takes one audit point named ``name``, in at most ``within_s`` seconds by ``clock_s``."""

    def __init__(
        self,
        name: str,
        placement: Mapping[TaskId, Placed],
        ask: Ask,
        ends: Ends,
        clock_s: Callable[[], float],
        within_s: float,
    ) -> None:
        self._name = name
        self._placement = placement
        self._ask = ask
        self._ends = ends
        self._clock_s = clock_s
        self._until_s = clock_s() + within_s
        self._within_s = within_s
        self._held: set[str] = set()
        self._held_since_s = 0.0

    def take(self, waves: Sequence[Wave]) -> AuditPoint:
        """Take the point. Raises AuditPointError with the reason if that is not possible; no hold stays then."""
        images: dict[TaskId, ImageOnNode] = {}
        try:
            for wave in waves:
                if missing := sorted(wave.tasks - self._placement.keys()):
                    raise AuditPointError(
                        f"no actor of this Ray cluster has task {missing[0]}: it moves, or another cluster works for "
                        "the application, too. Run the audit when all tasks are here"
                    )
                self._hold(wave)
                images |= self._images(wave)
        except BaseException:
            self._release()  # whatever they answer: they do it by themselves, too
            raise
        held_s = self._clock_s() - self._held_since_s if self._held else 0.0
        for actor, answer in self._release().items():
            _require(actor, answer, "intake on hold to the end")
        return AuditPoint(self._name, images, held_s)

    def _hold(self, wave: Wave) -> None:
        steps: dict[str, AuditStep] = {}
        for actor, tasks in self._by_actor(wave).items():
            partitions = frozenset(p for task in tasks for p in self._placement[task].sources) & wave.intake
            if partitions:
                left_s = self._left_s()
                steps[actor] = HoldIntake(self._name, self._placement[tasks[0]].epoch, partitions, left_s)
        if steps:
            if not self._held:
                self._held_since_s = self._clock_s()
            self._held |= steps.keys()
            for actor, answer in self._ask(steps).items():
                _require(actor, answer, "intake on hold")

    def _images(self, wave: Wave) -> dict[TaskId, ImageOnNode]:
        """Returns images at which nothing was written to what the wave reads since it was read to its end."""
        ends = self._ends(wave.reads) if wave.reads else {}
        while True:
            steps: dict[str, AuditStep] = {}
            for actor, tasks in self._by_actor(wave).items():
                reach = {p: ends[p] for task in tasks for p in self._placement[task].sources if p in ends}
                epoch = self._placement[tasks[0]].epoch
                steps[actor] = TakeImages(self._name, epoch, frozenset(tasks), reach, self._left_s())
            answers = self._ask(steps)
            for actor, answer in answers.items():
                _require(actor, answer, "images of its tasks")
            # The tasks of a cycle write to each other, also when they commit.
            before, ends = ends, self._ends(wave.reads) if wave.reads else {}
            if before == ends:
                return {
                    image.task_id: ImageOnNode(image, answer.node_id)
                    for answer in answers.values()
                    for image in answer.images
                }
            self._left_s()

    def _by_actor(self, wave: Wave) -> dict[str, list[TaskId]]:
        found: dict[str, list[TaskId]] = {}
        for task in sorted(wave.tasks):
            found.setdefault(self._placement[task].actor, []).append(task)
        return found

    def _release(self) -> Mapping[str, AuditAnswer]:
        held, self._held = self._held, set()
        return self._ask({actor: EndHold(self._name) for actor in held}) if held else {}

    def _left_s(self) -> float:
        left_s = self._until_s - self._clock_s()
        if left_s <= 0:
            raise AuditPointError(
                f"the application did not come to an audit point within {self._within_s:.0f} s: the tasks behind its "
                "repartition topics are behind. Run the audit when they have caught up, or give it more time with "
                "--point-timeout"
            )
        return left_s


def _require(actor: str, answer: AuditAnswer, what: str) -> None:
    if answer.refused is not None:
        raise AuditPointError(f"actor {actor} gives no {what}: {answer.refused}")
