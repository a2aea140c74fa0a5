"""The offsets that a backfill is planned by: those that the history source, the changelogs and the group have now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.common.written_times import moment
from penstock.kafka.backfill_note import fingerprint, read_note
from penstock.kafka.contracts import Admin, RecordConsumer
from penstock.kafka.range_reader import has_records
from penstock.pipeline.backfill.bounds import EARLIEST, Bounds, OffsetsAt
from penstock.pipeline.reading.kafka_history import kafka_ranges
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.topology.physical.topic_plan import TopicPlan
from penstock.topology.physical.topology import Topology, internal_topic

_NOTHING = OffsetRange(0, 0)
_ARCHIVE = "Read them from an archive (--source URL --source kafka)"

Available = Callable[[Iterable[TopicPartition]], Ranges]


@dataclass(frozen=True)
class OffsetLookUp:
    """The functions of a :class:`~penstock.pipeline.reading.contracts.HistorySource` that answer about offsets."""

    available: Available
    offsets_at: OffsetsAt
    reaches_present: bool = True
    """False if it ends before Kafka's topics do."""


class OffsetsNow:
    """The answers that a plan needs, each asked for once."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        topics: TopicPlan,
        admin: Admin,
        consumer: RecordConsumer,
        source: OffsetLookUp,
        bounds: Bounds,
    ) -> None:
        self.notes: list[str] = []
        self.changelogs_now: Ranges = {}
        self._config = config
        self._consumer = consumer
        existing = admin.topics()
        self.counts = topic_counts(topology, config, topics, existing)
        repartition = self.counts.repartition
        self.sources = sorted({p for partitions in topics.tasks.partitions.values() for p in partitions})
        self._from_outside = [at for at in self.sources if at.topic not in repartition]
        self._changelogs = [
            TopicPartition(topic, number)
            for topic in sorted(self.counts.changelogs)
            for number in range(existing.get(topic, 0))
        ]
        shuffled = [at for at in self.sources if at.topic in repartition and at.topic in existing]
        self._global = [
            TopicPartition(topic, number) for topic in topology.global_topics for number in range(existing[topic])
        ]
        # Asked first: what was written before, and is not stable after that, belongs to an open transaction.
        marks = admin.high_watermarks(self._from_outside) if source.reaches_present else {}
        self._ranges = {
            **kafka_ranges(consumer, [*shuffled, *self._changelogs]),
            **source.available([*self._from_outside, *self._global]),
        }
        self._group = self.committed = admin.committed(config.application_id)
        self.fingerprint = fingerprint(self.sources, self.committed)
        self._noted = read_note(admin, config.application_id, self.fingerprint)
        self.recompute = bounds.recompute
        self._begins = self._resolved("--from", bounds, source.offsets_at)
        self._untils = self._resolved("--until", bounds, source.offsets_at)
        if self.recompute:
            self._leave_out_what_is_committed(latest=bounds.latest)
        for at in self._from_outside:
            self._check(at, marks.get(at, 0))

    def _resolved(self, option: str, bounds: Bounds, offsets_at: OffsetsAt) -> dict[TopicPartition, int]:
        bound = bounds.begin if option == "--from" else bounds.until
        if bound is None:
            return {}
        if bound.text == EARLIEST:
            return {at: self._ranges[at].begin for at in self._from_outside}
        found = bound.resolve(option, self._from_outside, offsets_at)
        if bound.time_ms is not None and option == "--from":
            for at in sorted(found):
                if found[at] == self._ranges[at].begin > 0:
                    self.notes.append(
                        f"{_named(at)} begins at offset {found[at]}: records before that were deleted, and some of "
                        f"them may be of {moment(bound.time_ms)} or later"
                    )
        return found

    def _leave_out_what_is_committed(self, latest: bool) -> None:
        """Begin at the beginning, and end where the application is."""
        for at in self._from_outside:
            self._begins.setdefault(at, self._ranges[at].begin)
            if self.committed and not latest:
                begin, committed = self._ranges[at].begin, self.committed.get(at)
                self._untils.setdefault(at, begin if committed is None else max(begin, committed.offset))
        self.changelogs_now = {
            at: OffsetRange(self.range(at).begin, min(self._noted.get(at, self.range(at).end), self.range(at).end))
            for at in self._changelogs
        }
        for at in self._from_outside:
            if self._begins[at] == self._ranges[at].begin > 0:
                self.notes.append(
                    f"{_named(at)} begins at offset {self._begins[at]}: what the application computed from earlier "
                    "records is missing from what is compared"
                )
        self.committed = {}

    # ---- offsets ----

    def range(self, partition: TopicPartition) -> OffsetRange:
        """Returns the offsets of a changelog or a global topic that exist."""
        return self._ranges.get(partition, _NOTHING)

    def records(self, partition: TopicPartition) -> OffsetRange:
        """Returns the offsets of a source partition that the backfill reads."""
        return OffsetRange(self.position(partition), self.until(partition))

    def position(self, partition: TopicPartition) -> int:
        """Returns the offset at which the backfill begins in a source partition."""
        begin = self.range(partition).begin
        asked = self._begins.get(partition)
        if asked is not None:
            return asked
        committed = self._group.get(partition)
        return begin if committed is None else max(begin, committed.offset)

    def until(self, partition: TopicPartition) -> int:
        """Returns the offset at which the application continues in a source partition."""
        return self._untils.get(partition, self.range(partition).end)

    def noted(self, changelog: TopicPartition) -> int | None:
        """Returns the end that a changelog had before an unfinished backfill; None if there was none."""
        return self._noted.get(changelog)

    def global_records(self) -> Ranges:
        """Returns the ranges of all records in the topics of global stores."""
        return {partition: self.range(partition) for partition in self._global}

    def has_records(self, partition: TopicPartition, begin: int, end: int) -> bool:
        """Returns True if there are records from ``begin`` up to, but not including, ``end``."""
        return has_records(self._consumer, partition, OffsetRange(begin, end))

    # ---- what is refused ----

    def _check(self, at: TopicPartition, mark: int) -> None:
        """Raise if the range of a source partition is not there, or would be processed twice. ``mark``: the high
        watermark."""
        self._check_begin(at)
        committed, start, until, end = self.committed.get(at), self.position(at), self.until(at), self.range(at).end
        held_back = (
            f"{_named(at)}: a transaction that is open since offset {end} holds back the records from there to {mark}"
        )
        if until > end:
            why = f"{held_back}: wait until it ends" if until <= mark else f"{_named(at)} ends at offset {end}"
            raise ConfigError(f"--until: offset {until} cannot be reached: {why}, or give an earlier end")
        if committed is not None and until < committed.offset:
            raise ApplicationStateError(
                f"--until: {_named(at)} would end at offset {until}, but the application has processed its records up "
                f"to offset {committed.offset} already: give a later end"
            )
        if until < start:
            raise ConfigError(f"--until: {_named(at)} would end at offset {until}, before its beginning at {start}")
        if until == end < mark:
            self.notes.append(f"{held_back}. The backfill ends before it, and the application reads on from there")

    def _check_begin(self, at: TopicPartition) -> None:
        begin, end = self.range(at).begin, self.range(at).end
        committed, asked = self.committed.get(at), self._begins.get(at)
        if asked is None:
            if committed is not None and committed.offset < begin:
                raise ApplicationStateError(
                    f"{_named(at)}: the application would continue at offset {committed.offset}, but the offsets "
                    f"{committed.offset} to {begin - 1} are gone: retention has deleted their records before they were "
                    f"processed. {_ARCHIVE}, or continue without them: --from {at.topic}:{at.partition}:{begin}"
                )
            return
        if asked < begin:
            raise ConfigError(
                f"--from: {_named(at)} begins at offset {begin}: the offsets {asked} to {begin - 1} are gone, because "
                f"retention has deleted their records. {_ARCHIVE}, or begin at {at.topic}:{at.partition}:{begin}"
            )
        if asked > end:
            raise ConfigError(f"--from: {_named(at)} ends at offset {end}, before {asked}")
        if committed is None or asked == committed.offset:
            return
        if asked > committed.offset:
            self.notes.append(
                f"{_named(at)}: the offsets {committed.offset} to {asked - 1} are skipped, because --from is after the "
                "committed offset. The application will not process them either"
            )
            return
        if (changelog := self._changelog_with_state) is not None:
            raise ApplicationStateError(
                f"--from: {_named(at)} would begin at offset {asked}, but the application has processed its records up "
                f"to offset {committed.offset} already, and changelog {changelog!r} has the state of that: it would "
                "count records twice. Begin without --from, or set the application back with 'penstock reset'"
            )
        self.notes.append(
            f"{_named(at)}: the offsets {asked} to {committed.offset - 1} are processed again, because --from is "
            "before the committed offset. Their results are written again"
        )

    @cached_property
    def _changelog_with_state(self) -> str | None:
        return next((at.topic for at in self._changelogs if self._holds_rows(at)), None)

    def _holds_rows(self, at: TopicPartition) -> bool:
        begin, end = self.range(at).begin, self.range(at).end
        return self.has_records(at, begin, min(self._noted.get(at, end), end))


def topic_counts(
    topology: Topology, config: StreamsConfig, topics: TopicPlan, existing: Mapping[str, int]
) -> TopicCounts:
    """Returns the partitions of all topics, and which of them are internal. Internal topics that do not exist yet are
    counted as they will be created."""
    planned = {topic.name: topic.partitions for topic in topics.internal}
    repartition = frozenset(internal_topic(config.application_id, name) for name in topology.repartition_topics)
    return TopicCounts({**planned, **existing}, repartition, frozenset(planned) - repartition)


def _named(at: TopicPartition) -> str:
    return f"partition {at.partition} of topic {at.topic!r}"
