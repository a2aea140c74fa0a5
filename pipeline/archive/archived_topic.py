"""One generation of an archived topic: what the entries of its log come to. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from itertools import pairwise

from penstock.common.errors import ArchiveError, ArchiveGapError
from penstock.common.offset_ranges import OffsetRange
from penstock.pipeline.archive.manifest import (
    ArchivedFile,
    Base,
    Committed,
    Compacted,
    Entry,
    Generation,
    Opened,
    Span,
)


class ArchivedTopic:
    """The files of a generation, and the offsets that they cover."""

    def __init__(self, generation: Generation, base: Base | None = None, number: int = 0) -> None:
        """``base``: what the entries up to ``number`` come to."""
        base = base or Base()
        self.generation = generation
        self.number = number
        """The number of the last entry that is known."""
        self.run = base.run
        """The run that began last: it alone may commit."""
        self.lost: list[Span] = list(base.lost)
        """Offsets that Kafka had deleted before they were archived."""
        self.replaced: dict[str, int] = dict(base.replaced)
        """The number of the entry that replaced it, by each file that compaction has replaced and that may still be in
        the storage."""
        self._spans = {span.partition: OffsetRange(span.begin, span.end) for span in base.spans}
        self._files: dict[int, list[ArchivedFile]] = {}
        self._add(base.files)

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.generation.topic

    @property
    def topic_id(self) -> str:
        """The id that Kafka gave to this generation of the topic."""
        return self.generation.topic_id

    @property
    def folder(self) -> str:
        """The folder of its files, from the archive's root."""
        return self.generation.folder

    @property
    def partitions(self) -> Mapping[int, OffsetRange]:
        """The offsets of each partition that are archived. Those in :attr:`lost` are within, and not archived."""
        return dict(sorted(self._spans.items()))

    def all_files(self) -> list[ArchivedFile]:
        """Returns all files, by partition and offset."""
        return [file for _, files in sorted(self._files.items()) for file in files]

    def files(self, partition: int, offsets: OffsetRange) -> list[ArchivedFile]:
        """Returns the files that have the records of ``offsets``, in their order. The first and the last may have
        others, too. Raises ArchiveGapError if some of ``offsets`` are not archived."""
        if not offsets:
            return []
        has = self._spans.get(partition, OffsetRange(offsets.begin, offsets.begin))
        missing = [
            OffsetRange(offsets.begin, min(offsets.end, has.begin)),
            OffsetRange(max(offsets.begin, has.end), offsets.end),
            *(offsets.common(OffsetRange(it.begin, it.end)) for it in self.lost if it.partition == partition),
        ]
        for gap in filter(None, missing):
            raise ArchiveGapError(
                f"the archive lacks offsets {gap.begin} to {gap.end - 1} of {self.topic}-{partition} (folder "
                f"{self.folder}): it {self._has(partition)}. Archive the topic first, or ask for other offsets"
            )
        return [file for file in self._files.get(partition, ()) if file.offsets.common(offsets)]

    def take(self, number: int, entry: Entry) -> None:
        """Take the next entry of the log. Raises ArchiveError if it does not follow on those before."""
        match entry:
            case Opened():
                self.run = entry.run
                for span in entry.lost:
                    self._extend(number, span)
                    self.lost.append(span)
            case Committed():
                if entry.run != self.run:
                    raise self._damaged(number, f"run {entry.run} committed after run {self.run} had begun")
                for span in entry.spans:
                    self._extend(number, span)
                self._add(entry.files)
            case Compacted():
                self._replace(number, entry)
        self.number = number

    def forget_deleted(self, there: Container[str]) -> None:
        """Forget the replaced files that are deleted. ``there``: the files of a listing that is newer than the last
        entry."""
        self.replaced = {name: number for name, number in self.replaced.items() if name in there}

    def base(self) -> Base:
        """Returns what the entries up to :attr:`number` come to, as it is kept."""
        return Base(
            run=self.run,
            spans=tuple(Span(partition, it.begin, it.end) for partition, it in self.partitions.items()),
            lost=tuple(self.lost),
            files=tuple(self.all_files()),
            replaced=self.replaced,
        )

    def _extend(self, number: int, span: Span) -> None:
        has = self._spans.get(span.partition)
        if span.end < span.begin or (has is not None and span.begin != has.end):
            ends = "nothing is archived" if has is None else f"the next offset is {has.end}"
            offsets = f"{span.begin} to {span.end - 1} of {self.topic}-{span.partition}"
            raise self._damaged(number, f"it adds offsets {offsets}, but before it {ends}")
        self._spans[span.partition] = OffsetRange(span.begin if has is None else has.begin, span.end)

    def _add(self, files: Iterable[ArchivedFile]) -> None:
        for file in files:
            self._files.setdefault(file.partition, []).append(file)
        for partition, its in self._files.items():
            its.sort(key=lambda file: file.begin)
            for before, after in pairwise(its):
                if after.begin < before.end:
                    raise ArchiveError(
                        f"the archive is damaged: {before.name} and {after.name} both have offset {after.begin} of "
                        f"{self.topic}-{partition}"
                    )

    def _replace(self, number: int, entry: Compacted) -> None:
        names = set(entry.replaces)
        gone = [file for file in self.all_files() if file.name in names]
        if len(gone) != len(names):
            return  # another writer's compaction has replaced them before: this one is void
        if sum(file.rows for file in gone) != sum(file.rows for file in entry.files):
            raise self._damaged(number, "its files have another number of records than those that they replace")
        for partition, its in self._files.items():
            self._files[partition] = [file for file in its if file.name not in names]
        self._add(entry.files)
        self.replaced |= dict.fromkeys(entry.replaces, number)

    def _damaged(self, number: int, why: str) -> ArchiveError:
        return ArchiveError(f"the archive is damaged: manifest {number} of {self.folder}: {why}")

    def _has(self, partition: int) -> str:
        has = self._spans.get(partition)
        if not has:
            return f"has nothing of partition {partition}"
        lost = [f"{it.begin} to {it.end - 1}" for it in self.lost if it.partition == partition]
        without = f", without {', '.join(lost)}, which Kafka had deleted before they were archived" if lost else ""
        return f"has offsets {has.begin} to {has.end - 1}{without}"
