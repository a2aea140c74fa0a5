"""Remembers which internal topics an application has had, and refuses a start without one of them.

A start creates the internal topics that do not exist. That is right for the first start, and for a store that was added
to the program since. But an application that has committed offsets and has *lost* a changelog would begin with an empty
store although its offsets are committed. It would also wipe its last local stores, which do not fit the new changelog.

A note distinguishes the two cases. After each start, and each hour, the coordinator commits the names of the internal
topics, in a group of its own, as metadata of offsets of source topics. So the note is in Kafka, and lives as long as
the application's own offsets. Kafka deletes offsets with their topic, and a program that reads a pattern may lose one
of its source topics. So each source topic holds the whole note.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import cycle, groupby, islice
from operator import attrgetter
from typing import Protocol, TypeVar

from penstock.common.errors import InternalTopicError, KafkaRefusedError
from penstock.common.ids import CommittedOffset, Offsets, TopicPartition
from penstock.common.log import logger
from penstock.kafka.internal_topics.creation import NeedsTopics

_MOST_CHARACTERS = 3000
"""Characters of metadata of an offset. A broker allows 4096 bytes (``offset.metadata.max.bytes``)."""
_MOST_IN_ALL = 300_000
"""Characters of metadata in a commit, which Kafka writes as one batch of at most 1 MiB (``max.message.bytes``)."""


class NoteAdmin(Protocol):
    """The part of :class:`~penstock.kafka.contracts.Admin` that keeps a note."""

    def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Returns all committed offsets of a group."""

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit offsets of a group without members."""


class LostTopicError(InternalTopicError):
    """An internal topic that the application had is not among the topics that the broker lists."""


WAYS_OUT = (
    "restore the topic from a backup or mirror of Kafka, under the same name, and start again; or process all input "
    "again: 'penstock reset' sets offsets, internal topics and local state back"
)
Plan = TypeVar("Plan", bound=NeedsTopics)


def topics_group(application_id: str) -> str:
    """Returns the consumer group that holds the note."""
    return f"{application_id}-internal-topics"


def note_topics(
    admin: NoteAdmin, application_id: str, internal: Iterable[str], sources: Iterable[TopicPartition]
) -> None:
    """Note that the application has these internal topics, and no others. ``sources``: its source partitions, except
    those of internal topics. Without any, the note does not change. If they are too few for all names, the note has
    some of the names."""
    names, partitions = sorted(map(_short, internal)), sorted(sources)
    if names and not partitions:
        return
    notes = _pieces_by_partition(partitions, names)
    group = topics_group(application_id)
    try:
        before = admin.committed(group)
        if names or before:
            # An earlier version of the program may have had other sources, which still hold its names.
            admin.commit(group, {at: CommittedOffset(0) for at in before} | notes)
    except KafkaRefusedError as error:
        if names:
            _not_allowed(application_id, error)


def _pieces_by_partition(
    partitions: Iterable[TopicPartition], names: Sequence[str]
) -> dict[TopicPartition, CommittedOffset]:
    """Returns a piece of the note for each partition that holds one. A topic with enough partitions holds all pieces; a
    smaller one continues with the pieces after those of the topic before it."""
    per_piece = _MOST_CHARACTERS // 9
    pieces = [" ".join(names[begin : begin + per_piece]) for begin in range(0, len(names), per_piece)]
    if not pieces:
        return {}
    chosen = [at for _, topic in groupby(partitions, attrgetter("topic")) for at in islice(topic, len(pieces))]
    most = max(len(pieces), _MOST_IN_ALL // len(pieces[0]))
    return {at: CommittedOffset(0, piece) for at, piece in zip(chosen[:most], cycle(pieces), strict=False)}


def without_lost_topics(
    admin: NoteAdmin, application_id: str, plan: Callable[[Mapping[str, int]], Plan]
) -> Callable[[Mapping[str, int]], Plan]:
    """Returns a function like ``plan``, which makes the plan from the existing topics, that also raises what
    :func:`refuse_lost_topics` raises."""

    def checked(existing: Mapping[str, int]) -> Plan:
        planned = plan(existing)
        refuse_lost_topics(admin, application_id, [topic.name for topic in planned.internal], existing)
        return planned

    return checked


def forget_topics(admin: NoteAdmin, application_id: str) -> None:
    """Withdraw the note: all internal topics may be created again."""
    group = topics_group(application_id)
    admin.commit(group, {at: CommittedOffset(0) for at in admin.committed(group)})


def refuse_lost_topics(
    admin: NoteAdmin, application_id: str, internal: Iterable[str], existing: Collection[str]
) -> None:
    """Raise LostTopicError if the application has committed offsets, and an internal topic that it had is gone."""
    missing = sorted(set(internal) - set(existing))
    if not missing:
        return
    try:
        notes = admin.committed(topics_group(application_id))
    except KafkaRefusedError as error:
        _not_allowed(application_id, error)
        return
    had = {name for note in notes.values() for name in note.metadata.split()}
    lost = [topic for topic in missing if _short(topic) in had]
    if not lost or all(at.offset == 0 for at in admin.committed(application_id).values()):
        return
    raise LostTopicError(lost_topics(application_id, lost))


def lost_topics(application_id: str, lost: Collection[str]) -> str:
    """Describes lost internal topics, with the ways out."""
    named = ", ".join(map(repr, lost))
    what = f"internal topics {named} are" if len(lost) > 1 else f"internal topic {named} is"
    changelogs = any(topic.endswith("-changelog") for topic in lost)
    held = "the state of its stores" if changelogs else "records that were not processed yet"
    return (
        f"application {application_id!r}: {what} gone, with {held}. The records it was computed from will not be read "
        "again, because their offsets are committed: results would be wrong. No local state was deleted. "
        f"Either {WAYS_OUT}"
    )


def _not_allowed(application_id: str, error: KafkaRefusedError) -> None:
    logger(__name__).warning(
        "a lost internal topic would not be detected at the next start: allow the application to read, and commit in, "
        "the consumer group of the note",
        group=topics_group(application_id),
        error=str(error),
    )


def _short(topic: str) -> str:
    return f"{zlib.crc32(topic.encode()):08x}"
