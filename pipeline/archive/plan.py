"""Decides what a run archives: which generation of each topic, and from which offsets. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.common.errors import ArchiveError
from penstock.common.offset_ranges import OffsetRange
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.manifest import Generation, Span

Offsets = Mapping[int, OffsetRange]
"""The offsets that Kafka has of each partition of a topic now."""


@dataclass(frozen=True)
class Continued:
    """The generation that a run continues; ``begins``: it has to be announced first."""

    number: int
    begins: bool


def which_generation(topic: str, topic_id: str, known: Sequence[Generation], url: str) -> Continued:
    """Returns the generation of a topic with this id. Raises ArchiveError if the archive has a later one."""
    if not known:
        return Continued(1, True)
    newest = known[-1]
    if newest.topic_id == topic_id:
        return Continued(newest.number, False)
    if any(generation.topic_id == topic_id for generation in known):
        raise ArchiveError(
            f"topic {topic} has the id {topic_id} here, and {url} has archived another topic of that name since "
            f"(generation {newest.number}, id {newest.topic_id}): two Kafka clusters are archived to one place. Give "
            "each a URL of its own"
        )
    return Continued(newest.number + 1, True)


@dataclass(frozen=True)
class TopicStart:
    """The offsets at which a run begins. ``lost``: offsets behind the archive's end that Kafka has deleted."""

    begins: Mapping[int, int]
    lost: tuple[Span, ...]


def where_to_start(archived: ArchivedTopic, kafka: Offsets) -> TopicStart:
    """Returns the first offset to archive of each partition. Raises ArchiveError if Kafka ends before the archive."""
    begins: dict[int, int] = {}
    lost: list[Span] = []
    for partition, there in kafka.items():
        has = archived.partitions.get(partition)
        if has is None:
            begins[partition] = there.begin
            if archived.partitions and there.begin > 0:  # it was added since the last run, with offset 0
                lost.append(Span(partition, 0, there.begin))
            continue
        if there.end < has.end:
            raise ArchiveError(
                f"the archive has {archived.topic}-{partition} up to offset {has.end - 1}, and Kafka ends at "
                f"{there.end - 1}: Kafka has lost records (an unclean leader election, or a restored disk). To "
                f"continue, archive {archived.topic} to another URL"
            )
        begins[partition] = max(has.end, there.begin)
        if there.begin > has.end:
            lost.append(Span(partition, has.end, there.begin))
    return TopicStart(begins, tuple(lost))


def check_lost(topic: str, lost: Sequence[Span], accepted: bool) -> None:
    """Raise ArchiveError if Kafka has deleted records before they were archived, and the user has not accepted that."""
    if lost and not accepted:
        gaps = ", ".join(f"{topic}-{it.partition} offsets {it.begin} to {it.end - 1}" for it in lost)
        raise ArchiveError(
            f"Kafka has deleted records before they were archived (retention): {gaps}. Archive more often, or raise "
            f"retention.ms of {topic}. To continue without these records, which the archive then names as lost, give "
            "--accept-loss"
        )
