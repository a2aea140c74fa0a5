"""Detects that a task's keys are not in the partitions where Kafka's default partitioner puts them.

Records of a key meet in a join only if all joined topics have the key in the same partition. Kafka Streams checks only
the number of partitions. So results are missing, without an error, if one topic was written by a Java program and the
other by one that uses librdkafka's default partitioner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.common.errors import PartitionerMismatchError
from penstock.common.ids import TaskId
from penstock.common.log import logger
from penstock.common.partitioners import KeySample, Partitioner
from penstock.common.records import RecordBatch
from penstock.common.shown import shown

_LOOKS_LIKE = {
    Partitioner.MURMUR2: "Kafka's default partitioner (murmur2)",
    Partitioner.CRC32: "librdkafka's default partitioner (CRC32)",
    Partitioner.UNKNOWN: "a partitioner of its own, or several, or partitions were added later",
}
_CURE = (
    "let all producers use murmur2 (librdkafka: partitioner=murmur2_random) and write the topic again, or call "
    "repartition() before the join"
)


class PartitionerCheck:
    """Looks at a few keys of each source topic whose keys matter to a task. :meth:`report` warns once for each topic
    and for each join, or raises if ``fails``.

    ``meetings``: sets of topics whose records meet by their keys. ``suspects``: True if there is something to report.
    The reason may be that partitions were added to a topic since: ask for their number before :meth:`report`.
    """

    def __init__(self, task_id: TaskId, meetings: Sequence[frozenset[str]], *, fails: bool) -> None:
        self._task_id = task_id
        self._meetings = meetings
        self._fails = fails
        self.suspects = False
        self._counts: Mapping[str, int] = {}
        self._samples: dict[str, KeySample] = {}
        self._warned: set[str | frozenset[str]] = set()

    def begin(self, partitions: Mapping[str, int]) -> None:
        """Begin to check topics, given with their numbers of partitions. A topic of one partition needs no check."""
        number = self._task_id.partition
        self._counts, self.suspects = partitions, False
        checked = frozenset[str]().union(*self._meetings)
        self._samples = {
            topic: KeySample(number, count)
            for topic, count in partitions.items()
            if topic in checked and count > 1 and number < count
        }

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose keys matter to the task."""
        return frozenset[str]().union(*self._meetings)

    def look(self, batch: RecordBatch) -> None:
        """Look at some keys of ``batch``."""
        topic = batch.partition.topic
        sample = self._samples.get(topic)
        if sample is None:
            return
        sample.look(batch.keys)
        if any(each.misplaced for each in self._samples.values()):
            self.suspects = bool(self._unreported_topics() or self._unreported_joins())

    def report(self, partitions: Mapping[str, int]) -> None:
        """Warn of the findings, or raise PartitionerMismatchError. ``partitions``: the present numbers. A topic whose
        number has changed is not checked any more, because its keys were placed by both numbers."""
        self.suspects = False
        self._samples = {
            topic: sample for topic, sample in self._samples.items() if partitions.get(topic) == self._counts[topic]
        }
        for topic, partitioner in self._unreported_topics().items():
            self._warn_of_topic(topic, self._samples[topic], partitioner)
        for topics in self._unreported_joins():
            self._warn_of_join(topics)

    @property
    def misplaced(self) -> dict[str, int]:
        """By topic, the number of inspected keys that murmur2 places elsewhere."""
        return {topic: sample.misplaced for topic, sample in self._samples.items()}

    @property
    def partitioners(self) -> dict[str, Partitioner]:
        """The partitioners of the topics that are known to have another one than Kafka's default."""
        found = {topic: sample.partitioner for topic, sample in self._samples.items()}
        return {topic: each for topic, each in found.items() if each is not None and each is not Partitioner.MURMUR2}

    @property
    def parted(self) -> tuple[tuple[str, ...], ...]:
        """The topics that are joined, or merged, although different partitioners wrote them."""
        return tuple(tuple(sorted(topics)) for topics in self._meetings if self._differ(topics))

    def _differ(self, topics: Iterable[str]) -> bool:
        known = {sample.partitioner for topic in topics if (sample := self._samples.get(topic)) is not None}
        return len(known - {None}) > 1

    def _unreported_topics(self) -> dict[str, Partitioner]:
        return {topic: each for topic, each in self.partitioners.items() if topic not in self._warned}

    def _unreported_joins(self) -> list[frozenset[str]]:
        return [topics for topics in self._meetings if topics not in self._warned and self._differ(topics)]

    def _warn_of_topic(self, topic: str, sample: KeySample, partitioner: Partitioner) -> None:
        self._warned.add(topic)
        self._warn(
            f"topic {topic!r}, partition {self._task_id.partition}: keys such as {shown(sample.misplaced_key)} are not "
            f"where Kafka's default partitioner puts them. This topic was written by {_LOOKS_LIKE[partitioner]}. "
            "Look-ups by key may have to ask several tasks; a join with a topic of another partitioner loses results",
            topic=topic, partition=self._task_id.partition, partitioner=partitioner.value,
        )  # fmt: skip

    def _warn_of_join(self, topics: frozenset[str]) -> None:
        self._warned.add(topics)
        written = {
            topic: sample.partitioner
            for topic in sorted(topics)
            if (sample := self._samples.get(topic)) is not None and sample.partitioner is not None
        }
        each = "; ".join(f"{topic!r} by {_LOOKS_LIKE[partitioner]}" for topic, partitioner in written.items())
        self._warn(
            "RESULTS ARE MISSING: topics that are joined, or merged, were written by different partitioners, so "
            f"records of the same key are in different tasks and never meet: {each}. To fix it, {_CURE}",
            topics=list(written), partition=self._task_id.partition,
            partitioners=[partitioner.value for partitioner in written.values()],
        )  # fmt: skip

    def _warn(self, what: str, **fields: object) -> None:
        if self._fails:
            raise PartitionerMismatchError(
                f"task {self._task_id}: {what}. partitioner.mismatch=fail ends the application; if one partitioner has "
                f"written all topics that are joined, set it to warn. Otherwise {_CURE}"
            )
        logger(__name__).warning(what, task=str(self._task_id), **fields)
