"""The catalog of an archive: its topics and their generations, as its manifests name them. Knows no Spark."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.common.errors import ArchiveError, ObjectMissingError
from penstock.objects.contracts import ObjectStore
from penstock.objects.manifest_log import ManifestLog
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.manifest import TOPICS, Base, EntryInLog, Generation, PublishedTo, decoded

_ATTEMPTS = 5
_SUFFIX = ".json"


class Archive:
    """Reads the manifests of an archive: each call looks at what is there now."""

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects

    @classmethod
    def open(cls, location: ObjectLocation) -> Archive:
        """Returns the archive at a location, for reading. Raises ConfigError for a URL or setting that cannot be one,
        and ArchiveError for a folder that is not there, which would be made otherwise."""
        if location.is_missing_folder():
            raise no_archive(location.shown_url)
        return cls(location.open())

    def topics(self) -> list[str]:
        """Returns the names of all topics that are archived. Raises ArchiveError if there is no archive."""
        found = sorted({topic for topic, _ in self._announced()})
        if not found:
            raise no_archive(self.objects.url)
        return found

    def generations(self, topic: str) -> list[Generation]:
        """Returns the generations of a topic, in order: one for each time that it was created. Empty if it is not
        archived."""
        return [self._read(topic, number) for number in sorted(it for name, it in self._announced() if name == topic)]

    def generation(self, topic: str, topic_id: str | None = None) -> ArchivedTopic | None:
        """Returns the generation of the topic with this id, or the last one if ``topic_id`` is None; None if there is
        no such generation. Raises ArchiveError if its manifests are damaged."""
        for generation in reversed(self.generations(topic)):
            if topic_id in (None, generation.topic_id):
                return self.load(generation)
        return None

    def load(self, generation: Generation) -> ArchivedTopic:
        """Returns a generation as its manifests have it now. Raises ArchiveError if one is missing or damaged."""
        for attempt in range(_ATTEMPTS):
            bases = ManifestLog(self.objects, f"{generation.folder}/bases/")
            base = bases.numbers()[-1:]
            try:
                found = ArchivedTopic(generation)
                if base:
                    content = decoded(bases.read(base[0]), Base, bases.name(base[0]))
                    found = ArchivedTopic(generation, content, base[0])
                self.follow(found)
            except (ObjectMissingError, MissingManifestError):
                # A newer base has been made meanwhile, and what it covers has been deleted: the next look finds it.
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                return found
        raise AssertionError  # pragma: no cover

    def published_to(self, folder: str) -> PublishedTo | None:
        """Returns the Iceberg table in which the files of a generation are, too; None if there is none."""
        name = PublishedTo.object_name(folder)
        try:
            return decoded(self.objects.read(name), PublishedTo, name)
        except ObjectMissingError:
            return None

    def follow(self, archived: ArchivedTopic) -> None:
        """Take the entries that were appended since ``archived`` was read."""
        log = ManifestLog(self.objects, f"{archived.folder}/manifests/")
        for number in log.numbers(archived.number):
            if number != archived.number + 1:
                raise MissingManifestError(
                    f"the archive is damaged: {log.name(archived.number + 1)} is missing in {self.objects.url}, and "
                    "later manifests are there. Bring it back from a backup"
                )
            archived.take(number, decoded(log.read(number), EntryInLog, log.name(number)).entry)

    def _announced(self) -> Iterator[tuple[str, int]]:
        for info in self.objects.list(TOPICS):
            topic, _, number = info.name.removeprefix(TOPICS).removesuffix(_SUFFIX).rpartition("~")
            if topic and number.isdigit():
                yield topic, int(number)

    def _read(self, topic: str, number: int) -> Generation:
        name = f"{TOPICS}{topic}~{number}{_SUFFIX}"
        return decoded(self.objects.read(name), Generation, name)


def no_archive(url: str) -> ArchiveError:
    """Returns the error of a place without an archive."""
    return ArchiveError(f"there is no archive at {url}: penstock archive TOPIC --to URL makes one")


class MissingManifestError(ArchiveError):
    """A manifest is missing among others. It may have been deleted since a reader has looked for the newest base."""
