"""The progress topic of an ingest: which rows of which file are in the topic.

It is compacted, with one partition. The rows of a file and its new progress are written in one transaction, so readers
of committed records see both or neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field

import msgspec

from penstock.common.errors import BrokerUnreachableError, ConfigError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.topics import NewTopic
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import Admin
from penstock.kafka.noted_transactions import ProgressRecord
from penstock.kafka.range_reader import KafkaReader

TRANSACTION_TIMEOUT_MS = 60_000
"""Longest time for which records of an ingest that was killed hold up readers of committed records. A rerun ends it."""
_RUN, _FILE = b"run", b"file/"


class FileProgress(msgspec.Struct, frozen=True):
    """The progress of one file. ``lane`` never changes; ``digest`` is empty until its rows are written."""

    lane: int
    size: int
    modified_ms: int
    digest: str = ""
    rows: int = 0
    """Rows from the beginning of the file that are done: written, or skipped because they are no records."""
    skipped: int = 0
    done: bool = False
    records: int = 0
    null_keys: int = 0
    """Records whose key is null."""


class Run(msgspec.Struct, frozen=True):
    """The last run that has begun: only its lanes may write. ``settings`` are the same in all runs of an ingest."""

    id: str
    begun_ms: int
    topic_id: str
    settings: dict[str, str]


@dataclass
class Progress:
    """The content of the progress topic: the last run, if there was one, and the progress of each file by its name."""

    run: Run | None = None
    files: dict[str, FileProgress] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows that are done."""
        return sum(each.rows for each in self.files.values())

    @property
    def skipped(self) -> int:
        """Number of rows that are skipped."""
        return sum(each.skipped for each in self.files.values())

    @property
    def records(self) -> int:
        """Number of records that are written."""
        return sum(each.records for each in self.files.values())

    @property
    def null_keys(self) -> int:
        """Number of records that are written and have a null key."""
        return sum(each.null_keys for each in self.files.values())

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take the next record of the topic. Raises ConfigError if it is none of an ingest."""
        try:
            if key == _RUN:
                self.run = msgspec.json.decode(value or b"", type=Run)
                return
            if key is not None and key.startswith(_FILE):
                self.files[key.removeprefix(_FILE).decode()] = msgspec.json.decode(value or b"", type=FileProgress)
                return
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"a record of the progress topic cannot be read ({error}): key {key!r}") from None
        raise ConfigError(f"the progress topic holds a record that no ingest has written: key {key!r}")


def run_record(run: Run) -> ProgressRecord:
    """Returns the record of a run."""
    return ProgressRecord(_RUN, msgspec.json.encode(run))


def file_record(name: str, progress: FileProgress) -> ProgressRecord:
    """Returns the record of the progress of a file."""
    return ProgressRecord(_FILE + name.encode(), msgspec.json.encode(progress))


class ProgressTopic:
    """The progress topic of the ingest ``ingest_id``."""

    def __init__(self, ingest_id: str) -> None:
        self.name = f"{ingest_id}-ingest-progress"
        self._partition = TopicPartition(self.name, 0)

    def create(self, admin: Admin) -> None:
        """Create the topic if it does not exist."""
        admin.create_topics([NewTopic(self.name, 1, config={"cleanup.policy": "compact"})])

    def read(self, clients: KafkaClients, *, wait: bool) -> Progress:
        """Returns the content of the topic. ``clients`` must read committed records.

        ``wait``: wait until each transaction that is open now has ended. Without it, records behind the first of them
        may be missing.
        """
        progress = Progress()
        admin = clients.admin()
        ends = admin.high_watermarks([self._partition]) if wait else admin.end_offsets([self._partition])
        end = ends[self._partition]
        with closing(clients.restore_consumer()) as consumer:
            begin = consumer.fetch_beginning_offsets([self._partition])[self._partition]
            reader = KafkaReader(consumer, {self._partition: OffsetRange(begin, end)})
            try:
                for batch in reader.batches(self._partition):
                    for key, value in zip(batch.keys, batch.values, strict=True):
                        progress.take(key, value)
            except BrokerUnreachableError as error:
                raise BrokerUnreachableError(
                    f"{error}. A transaction may be open there: run the ingest again"
                ) from error
        return progress


def unfinished(names: Iterable[str], progress: Progress) -> list[str]:
    """Returns those of ``names`` that are not done."""
    return [name for name in names if not (name in progress.files and progress.files[name].done)]
