"""The log of one generation of an archived topic, for those that append to it: one entry a commit, and one writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from penstock.common.errors import ArchiveError, ObjectExistsError
from penstock.objects.contracts import ObjectStore
from penstock.objects.manifest_log import ManifestLog
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.manifest import (
    ArchivedFile,
    Base,
    Committed,
    Compacted,
    Entry,
    EntryInLog,
    Generation,
    Opened,
    Span,
    encoded,
)

BASE_EACH = 50
"""Number of entries after which a base is made: a reader reads at most so many manifests, and a base."""


class ArchiveTakenOverError(ArchiveError):
    """Another run archives the same topic to the same place: this one must end, and has committed nothing since."""


class TopicLog:
    """Appends to the log of one generation. Not for several threads."""

    def __init__(self, objects: ObjectStore, generation: Generation) -> None:
        self.objects = objects
        self._archive = Archive(objects)
        self._log = ManifestLog(objects, f"{generation.folder}/manifests/")
        self._bases = ManifestLog(objects, f"{generation.folder}/bases/")
        self.archived: ArchivedTopic = self._archive.load(generation)

    def open_run(self, run: str, at_ms: int, writer: str, lost: Callable[[ArchivedTopic], Sequence[Span]]) -> None:
        """Begin a run: from then on no earlier one can commit. ``run``: a text that no other run has. ``lost`` returns
        the offsets that the run passes over; it is called again if the archive has changed meanwhile."""

        def entry() -> Entry:
            return Opened(run=run, at_ms=at_ms, writer=writer, lost=tuple(lost(self.archived)))

        while not self._append(entry()):
            continue

    def commit(self, run: str, at_ms: int, spans: Sequence[Span], files: Sequence[ArchivedFile]) -> None:
        """Commit records of a run. Raises ArchiveTakenOverError if another run has begun meanwhile."""
        self._append_as(run, partial(Committed, run=run, at_ms=at_ms, spans=tuple(spans), files=tuple(files)))

    def compact(self, run: str, at_ms: int, files: Sequence[ArchivedFile], replaces: Sequence[str]) -> None:
        """Replace files by others with the same records. ``run``: the one that had begun last when the compaction
        began: a later one may have deleted the new files. Raises ArchiveTakenOverError if there is one."""
        self._append_as(run, partial(Compacted, run=run, at_ms=at_ms, files=tuple(files), replaces=tuple(replaces)))

    def _append_as(self, run: str, entry: Callable[[], Entry]) -> None:
        while True:
            if self.archived.run != run:
                raise ArchiveTakenOverError(
                    f"another run has begun to archive {self.archived.topic} to {self.objects.url}, and this one has "
                    "ended: nothing is lost or doubled. Only one run may archive a topic to one place"
                )
            if self._append(entry()):
                return

    def _append(self, entry: Entry) -> bool:
        """Append as the next entry. Returns False, and takes what others have appended, if the number is taken."""
        number, content = self.archived.number + 1, encoded(EntryInLog(entry=entry))
        self._check(entry)
        try:
            self._log.append(number, content)
        except ObjectExistsError:
            # A request that the client repeated finds what it has written itself.
            if self._log.read(number) != content:
                self._archive.follow(self.archived)
                return False
        self.archived.take(number, entry)
        if number % BASE_EACH == 0:
            self._make_base(number)
        return True

    def _check(self, entry: Entry) -> None:
        """Raise ArchiveError if readers would refuse the entry."""
        tried = ArchivedTopic(self.archived.generation, self.archived.base(), self.archived.number)
        tried.take(self.archived.number + 1, entry)

    def _make_base(self, number: int) -> None:
        try:
            self._bases.append(number, encoded(self.archived.base()))
        except ObjectExistsError:
            return  # what it holds follows from the entries, so it is the same


def begin_generation(objects: ObjectStore, topic: str, topic_id: str, number: int, at_ms: int) -> Generation:
    """Announce the next generation of a topic. Raises ArchiveTakenOverError if another run has just announced another
    one under this number."""
    made = Generation(topic=topic, number=number, topic_id=topic_id, begun_at_ms=at_ms)
    with suppress(ObjectExistsError):  # of a run that ended before it announced the generation
        # The base comes first, so that a reader of an announced generation finds one.
        ManifestLog(objects, f"{made.folder}/bases/").append(0, encoded(Base()))
    try:
        objects.create(made.object_name, encoded(made))
    except ObjectExistsError:
        there = next((it for it in Archive(objects).generations(topic) if it.number == number), None)
        if there is None or there.topic_id != topic_id:
            raise ArchiveTakenOverError(
                f"another run has begun generation {number} of {topic} at {objects.url} for another topic of that "
                "name: two clusters are archived to one place. Give each a URL of its own"
            ) from None
        return there
    return made
