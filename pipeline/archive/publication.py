"""Decides what an Iceberg table lacks of an archived topic. Pure.

The manifests of the archive are the truth. The table follows them: each publication is one commit of the table, and one
that was lost is planned again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.common.errors import ArchiveError
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.manifest import ArchivedFile, place_of


class Publisher(Protocol):
    """Publishes the files of archived topics elsewhere."""

    def check(self, folder: str, topic_id: str) -> None:
        """Raise StreamsError if a generation cannot be published, as far as that is known before any work. ``folder``:
        of the generation, which may not have begun yet."""

    def publish(self, archived: ArchivedTopic) -> bool:
        """Publish all files of a generation that are not published yet. Returns True if files that were published
        are not part of it any more: readers may still be busy with them. Raises StreamsError; then nothing is
        published, or all is."""


@dataclass(frozen=True)
class InTable:
    """The state of a table.

    ``rows``: by name, the number of rows of each file of the archive that is in the table. ``ends``: for each
    partition the offset up to which it was published. ``entry``: the last entry of the archive's log that is published.
    ``rewritten``: another program has changed the table since it was made.
    """

    rows: Mapping[str, int]
    ends: Mapping[int, int]
    entry: int
    rewritten: bool


@dataclass(frozen=True)
class Publication:
    """One commit of a table: the files that it adds, and names of files that it removes."""

    adds: tuple[ArchivedFile, ...]
    removes: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.adds or self.removes)


def plan_publication(archived: ArchivedTopic, table: InTable) -> Publication:
    """Returns the commit that makes ``table`` have each record of ``archived`` once.

    If another program has rewritten or deleted rows of the table, that stays so: files are added behind the published
    offsets alone, and a compacted file replaces others if the table still has all of them. Raises ArchiveError if
    the table has some of them only.
    """
    if table.entry > archived.number:  # a later run has published more
        return Publication((), ())
    files = {file.name: file for file in archived.all_files()}
    adds = [file for name, file in files.items() if name not in table.rows]
    removes = [name for name in table.rows if name not in files]
    if table.rewritten:
        return _beside_others(archived, table, adds, removes)
    return Publication(tuple(adds), tuple(sorted(removes)))


def _beside_others(
    archived: ArchivedTopic, table: InTable, new: Sequence[ArchivedFile], gone: Sequence[str]
) -> Publication:
    adds, removes = list[ArchivedFile](), list[str]()
    for file in new:
        published = table.ends.get(file.partition, 0)
        olds = [name for name in gone if _is_part(name, file)]
        if file.begin >= published or (olds and sum(table.rows[name] for name in olds) == file.rows):
            adds.append(file)
            removes += olds
        elif olds or file.end > published:
            raise ArchiveError(
                f"another program has rewritten the table, and {archived.topic}-{file.partition} was compacted "
                f"meanwhile: offsets {file.begin} to {file.end - 1} cannot be told apart in it. Drop the table: the "
                "next run makes it again from the archive"
            )
    return Publication(tuple(adds), tuple(sorted(removes)))


def _is_part(name: str, file: ArchivedFile) -> bool:
    partition, offsets = place_of(name)
    return partition == file.partition and file.begin <= offsets.begin and offsets.end <= file.end
