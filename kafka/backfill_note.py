"""The note that shows an unfinished backfill to the next backfill, and to a start of the application.

Before a backfill writes anything, it commits, in a group of its own, the end of each changelog and a fingerprint of
the offsets that it started from. While those offsets have not moved, all rows from that end on are the state of an
unfinished attempt. They belong to records that are not committed as processed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from penstock.common.errors import ApplicationStateError
from penstock.common.ids import CommittedOffset, Offsets, TopicPartition
from penstock.kafka.contracts import Admin


def note_group(application_id: str) -> str:
    """Returns the consumer group that holds the note."""
    return f"{application_id}-backfill"


def fingerprint(sources: Iterable[TopicPartition], committed: Offsets) -> str:
    """Returns the fingerprint of the offsets that the application has committed in its source partitions."""
    offsets = [(*partition, committed[partition].offset) for partition in sorted(sources) if partition in committed]
    return hashlib.sha256(repr(offsets).encode()).hexdigest()[:16]


def write_note(admin: Admin, application_id: str, ends: Mapping[TopicPartition, int], started_from: str) -> None:
    """Note the ends of the changelogs and the fingerprint, before anything is written."""
    admin.commit(note_group(application_id), {at: CommittedOffset(end, started_from) for at, end in ends.items()})


def withdraw_note(admin: Admin, application_id: str, ends: Mapping[TopicPartition, int]) -> None:
    """Note that the backfill is finished. Its committed offsets show that too, unless there was nothing to read."""
    write_note(admin, application_id, ends, "")


def read_note(admin: Admin, application_id: str, started_from: str) -> dict[TopicPartition, int]:
    """Returns the ends of the changelogs before an unfinished attempt from these offsets; empty if there is none."""
    noted = admin.committed(note_group(application_id))
    return {partition: note.offset for partition, note in noted.items() if note.metadata == started_from}


def refuse_unfinished_backfill(admin: Admin, application_id: str, sources: Iterable[TopicPartition]) -> None:
    """Raise ApplicationStateError when changelogs hold state of an unfinished backfill. An application that started now
    would restore that state, and process again the records from which it was computed."""
    if not admin.committed(note_group(application_id)):
        return
    noted = read_note(admin, application_id, fingerprint(sources, admin.committed(application_id)))
    ends = admin.end_offsets(noted)
    unfinished = {partition: ends[partition] - mark for partition, mark in noted.items() if ends[partition] > mark}
    if unfinished:
        topics = ", ".join(repr(topic) for topic in sorted({partition.topic for partition in unfinished}))
        raise ApplicationStateError(
            f"a backfill of application {application_id!r} is unfinished: it wrote {sum(unfinished.values())} "
            f"rows of state to {topics}, but did not commit the offsets of the records that they count. A start now "
            "would count these records twice: wait for the backfill if it still runs, else run 'penstock backfill' "
            "again until it succeeds (it writes over those rows), then start"
        )
