"""The manifests of an archive: the entries of the log of one generation of a topic, and the names of its objects.

::

    topics/<topic>~<generation>.json               made when a generation begins: the topic's id
    <topic>/manifests/<number>.json                one entry: a run has begun, records are archived, files compacted
    <topic>/bases/<number>.json                    what all entries up to this number come to
    ~iceberg/<topic>.json                          the Iceberg table in which the files are, too, if there is one
    <topic>/<partition>/<begin>-<end>.parquet      the records from offset ``begin`` up to, but not including, ``end``

The second generation of a topic, which was deleted and created again, is in the folder ``<topic>~2``, and so on.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from penstock.common.errors import ArchiveError
from penstock.common.offset_ranges import OffsetRange

FORMAT = 1
TOPICS = "topics/"
TABLES = "~iceberg/"
_DIGITS = 20
T = TypeVar("T")


class ArchivedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of records of a partition.

    ``name``: of the object, from the archive's root. ``begin``, ``end``: it holds all records of these offsets that a
    reader of committed records could see. ``digest``: of the file. ``content_digest``: of the records, whatever file
    they are in (``records.py``). The timestamps (ms) are those of the first and the last record; they need not be the
    smallest and the largest. ``decoded``: the serdes of the decoded columns; files of other serdes have other columns.
    ``undecodable``: keys and values that these serdes refused.
    """

    name: str
    partition: int
    begin: int
    end: int
    rows: int
    bytes: int
    digest: str
    content_digest: str
    first_timestamp: int
    last_timestamp: int
    undecodable: int = 0
    decoded: str = ""

    @property
    def offsets(self) -> OffsetRange:
        """The offsets that the file covers."""
        return OffsetRange(self.begin, self.end)


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Offsets of one partition in a manifest."""

    partition: int
    begin: int
    end: int


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of a topic: a topic that is deleted and created again has another id, and begins another."""

    format: int = FORMAT
    topic: str
    number: int
    topic_id: str
    begun_at_ms: int

    @property
    def folder(self) -> str:
        """The folder of its files and manifests."""
        return folder_of(self.topic, self.number)

    @property
    def object_name(self) -> str:
        """The name of the object that announces it."""
        return f"{TOPICS}{self.topic}~{self.number}.json"


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag="opened", tag_field="kind"):
    """A run has begun to archive. No earlier run can commit after this entry: its next number is taken.

    ``lost``: offsets that no file will have, because Kafka had deleted them before they were archived; the user has
    accepted that. ``writer``: host and process, for messages.
    """

    run: str
    at_ms: int
    writer: str
    lost: tuple[Span, ...] = ()


class Committed(msgspec.Struct, frozen=True, kw_only=True, tag="committed", tag_field="kind"):
    """Records were archived: all of ``spans``, in ``files``. A span without records has no file."""

    run: str
    at_ms: int
    spans: tuple[Span, ...]
    files: tuple[ArchivedFile, ...]


class Compacted(msgspec.Struct, frozen=True, kw_only=True, tag="compacted", tag_field="kind"):
    """``files`` hold the records of the files named in ``replaces``, which readers need not look at any more."""

    run: str
    at_ms: int
    files: tuple[ArchivedFile, ...]
    replaces: tuple[str, ...]


Entry = Opened | Committed | Compacted


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """The state after the entries up to a number, so that a reader need not read them all.

    ``replaced``: the number of the entry that replaced it, by each file that compaction has replaced. Such files are
    deleted a day later, or more.
    """

    format: int = FORMAT
    run: str = ""
    spans: tuple[Span, ...] = ()
    lost: tuple[Span, ...] = ()
    files: tuple[ArchivedFile, ...] = ()
    replaced: dict[str, int] = {}


class PublishedTo(msgspec.Struct, frozen=True, kw_only=True):
    """The Iceberg table in which the files of a generation are, too."""

    format: int = FORMAT
    catalog: str
    table: str

    @staticmethod
    def object_name(folder: str) -> str:
        """Returns the name of the object of a generation's folder. No topic has such a name."""
        return f"{TABLES}{folder}.json"


class EntryInLog(msgspec.Struct, frozen=True, kw_only=True):
    """The form in which an entry is written."""

    entry: Entry
    format: int = FORMAT


def encoded(what: msgspec.Struct) -> bytes:
    """Returns the JSON of a manifest, with a line for each member at the top."""
    return msgspec.json.format(msgspec.json.encode(what), indent=1) + b"\n"


def decoded(content: bytes, kind: type[T], name: str) -> T:
    """Returns the content of a manifest. Raises ArchiveError if it is none, or of a later format."""
    try:
        found = msgspec.json.decode(content, type=_Format)
        if found.format > FORMAT:
            raise ArchiveError(
                f"{name} has format {found.format}, and this version of penstock reads {FORMAT}: use a later version"
            )
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise ArchiveError(f"{name} is damaged: it is no manifest of an archive ({error})") from None


class _Format(msgspec.Struct):
    format: int


def folder_of(topic: str, number: int) -> str:
    """Returns the folder of a generation."""
    return topic if number == 1 else f"{topic}~{number}"


def file_name(folder: str, partition: int, offsets: OffsetRange, mark: str = "") -> str:
    """Returns the name of a file. ``mark`` tells apart two files of the same offsets."""
    ending = f"~{mark}" if mark else ""
    return f"{folder}/{partition}/{offsets.begin:0{_DIGITS}}-{offsets.end:0{_DIGITS}}{ending}.parquet"


def place_of(name: str) -> tuple[int, OffsetRange]:
    """Returns partition and offsets of a file of this name."""
    _, partition, last = name.rsplit("/", 2)
    begin, end = last.removesuffix(".parquet").partition("~")[0].split("-")
    return int(partition), OffsetRange(int(begin), int(end))
