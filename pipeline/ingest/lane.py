"""Writes the files of one lane, one after the other, in transactions that hold their progress, too.

The ``transactional.id`` of a lane is the same in every run. So a writer first takes the id, which ends whatever an
older writer of the lane has begun, then reads which rows are committed, and continues behind them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from penstock.common.errors import ApplicationStateError, BrokerUnreachableError, ConfigError, ObjectStoreError
from penstock.common.log import logger
from penstock.kafka.contracts import UndeliveredError
from penstock.kafka.noted_transactions import Transactions, transactions
from penstock.objects.digests import digest_of_file
from penstock.pipeline.ingest.checks import check_schema
from penstock.pipeline.ingest.contracts import FileError, SourceFile
from penstock.pipeline.ingest.downloads import Downloads
from penstock.pipeline.ingest.encoding import Encoder
from penstock.pipeline.ingest.file_writer import FileWriter
from penstock.pipeline.ingest.job import IngestJob
from penstock.pipeline.ingest.plan import Lane, changed, is_done
from penstock.pipeline.ingest.progress import FileProgress, Progress, file_record
from penstock.pipeline.ingest.reading import read_rows, schema_of

_COMMIT_EACH_S = 2.0
_PATIENCE_S = 120.0
"""Seconds without a commit after which a lane gives up, while brokers do not answer."""
_AGAIN_AFTER_S = 1.0


@dataclass(frozen=True)
class LaneReport:
    """The result of a lane: a message for each file that is not done, and messages about some of the skipped rows."""

    failures: tuple[str, ...]
    refused: tuple[str, ...]


class LaneWriter:
    """Writes the files of one lane."""

    def __init__(
        self,
        job: IngestJob,
        lane: Lane,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._job = job
        self._lane = lane
        self._clock = clock
        self._wait = wait
        self._encoder = Encoder(job.mapping)
        self._failures: dict[str, str] = {}
        self._refused: dict[tuple[str, int], str] = {}
        self._committed_s = clock()

    def run(self) -> LaneReport:
        """Write all files. A producer that is lost, as when brokers restart, is replaced.

        A file that cannot be written is reported at the end; the others are written. Raises ApplicationStateError if
        another run of the ingest has begun, ObjectStoreError, and BrokerUnreachableError or UndeliveredError if nothing
        could be committed for two minutes.
        """
        self._committed_s = self._clock()
        lost = False
        while True:
            try:
                if lost:  # if another run has taken the id, it must not be taken back
                    self._read_progress(wait=False)
                self._write_all()
                break
            except (UndeliveredError, BrokerUnreachableError) as error:
                if self._clock() - self._committed_s > _PATIENCE_S:
                    raise
                logger(__name__).warning("records not committed, retrying", lane=self._lane.number, error=str(error))
                lost = True
                self._wait(_AGAIN_AFTER_S)
        return LaneReport(tuple(self._failures.values()), tuple(self._refused.values()))

    def _read_progress(self, *, wait: bool) -> Progress:
        """Returns the progress. Raises ApplicationStateError if the last run is not this one."""
        progress = self._job.progress_topic.read(self._job.clients, wait=wait)
        if progress.run is None or progress.run.id != self._job.run:
            raise ApplicationStateError(
                f"another run of ingest {self._job.id!r} has begun, or its topic {self._job.progress_topic.name!r} was "
                "deleted: this run ends"
            )
        return progress

    def _write_all(self) -> None:
        job = self._job
        taken = transactions(job.clients, job.transactional_id(self._lane.number), job.progress_topic.name, self._clock)
        with taken as writer:
            progress = self._read_progress(wait=True)
            files = [file for file in self._lane.files if not is_done(file, progress)]
            with Downloads(job.location.open(), [file.name for file in files]) as downloads:
                self._write_files(writer, files, downloads, progress)

    def _write_files(
        self, writer: Transactions, files: Sequence[SourceFile], downloads: Downloads, progress: Progress
    ) -> None:
        for file in files:
            if not (ready := downloads.is_ready()):
                self._commit(writer)  # a download may take longer than a transaction may be open
            try:
                with downloads.next() as local:
                    if not ready:  # the brokers were not asked for anything
                        self._committed_s = self._clock()
                    self._write_file(writer, file, local, progress.files[file.name])
            except FileError as error:
                self._failures[file.name] = f"{file.name!r}: {error}"
            except ObjectStoreError:
                self._commit(writer)
                raise
        self._commit(writer)

    def _commit(self, writer: Transactions) -> None:
        if writer.is_open:
            writer.commit()
            self._committed_s = self._clock()

    def _write_file(self, writer: Transactions, file: SourceFile, local: Path, known: FileProgress) -> None:
        digest, size = digest_of_file(local), local.stat().st_size
        now = FileProgress(known.lane, size, file.modified_ms, digest)
        if known.digest == digest:
            now = replace(known, modified_ms=file.modified_ms)
        elif known.rows:
            raise FileError(changed(known, f"its hash was {known.digest}, and is {digest}"))
        if not now.done:
            now = self._write_rows(writer, file, local, now)
        writer.note(file_record(file.name, replace(now, done=True)))

    def _write_rows(self, writer: Transactions, file: SourceFile, local: Path, now: FileProgress) -> FileProgress:
        job = self._job
        try:
            schema = schema_of(local, file.format, job.csv)
            if schema is not None:
                check_schema(schema, job.mapping)
        except ConfigError as error:
            raise FileError(str(error)) from None
        written = FileWriter(job, self._encoder, writer, file.name, now)
        try:
            for rows in read_rows(local, file.format, job.csv, job.mapping.columns, now.rows):
                written.write(rows)
                if writer.open_for_s() > _COMMIT_EACH_S:
                    self._commit(writer)
                else:
                    writer.producer.poll()
        finally:
            self._refused.update(written.refused)
        return written.progress
