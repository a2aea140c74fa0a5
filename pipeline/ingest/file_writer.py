"""Sends the rows of one file in their order, and counts them."""

from __future__ import annotations

from msgspec.structs import replace

from penstock.common.errors import ProductionError
from penstock.kafka.noted_transactions import Transactions
from penstock.pipeline.ingest.contracts import FileError, Rows
from penstock.pipeline.ingest.encoding import Encoded, Encoder
from penstock.pipeline.ingest.job import IngestJob
from penstock.pipeline.ingest.progress import FileProgress, file_record

_REFUSED_KEPT = 5
"""Number of refused rows of a file of which the messages are kept."""


class FileWriter:
    """Sends rows into transactions, and notes in them which rows of the file are done."""

    def __init__(
        self, job: IngestJob, encoder: Encoder, writer: Transactions, name: str, progress: FileProgress
    ) -> None:
        self.progress = progress
        self.refused: dict[tuple[str, int], str] = {}
        """By file and row: why a row is no record; of the first that were skipped."""
        self._topic = job.mapping.topic
        self._skips = job.skips_refused
        self._encoder = encoder
        self._writer = writer
        self._name = name

    def write(self, rows: Rows) -> None:
        """Send the next rows. Raises FileError at the first that is no record, if such rows are not skipped: the rows
        before it are sent, and noted."""
        encoded = self._encoder.encode(rows)
        self._writer.begin()
        try:
            sent = 0
            for index, why in sorted(rows.refused.items()):
                self._send(rows.first, encoded, sent, index)
                self._pass_over(rows.first + index, why)
                sent = index + 1
            self._send(rows.first, encoded, sent, len(rows))
        finally:
            self._writer.note(file_record(self._name, self.progress))

    def _send(self, first: int, encoded: Encoded, begin: int, end: int) -> None:
        send, topic = self._writer.producer.send, self._topic
        while begin < end:
            sent = begin
            columns = encoded.keys, encoded.values, encoded.timestamps, encoded.headers, encoded.partitions
            cut = [column[begin:end] for column in columns]
            try:
                for key, value, timestamp, headers, partition in zip(*cut, strict=True):
                    send(topic, key, value, timestamp, headers, partition)
                    begin += 1
                self._count(first, encoded, sent, begin)
            except ProductionError as error:  # the record is too large
                self._count(first, encoded, sent, begin)
                self._pass_over(first + begin, error.what)
                begin += 1

    def _count(self, first: int, encoded: Encoded, begin: int, end: int) -> None:
        now = self.progress
        self.progress = replace(
            now,
            rows=first + end,
            records=now.records + end - begin,
            null_keys=now.null_keys + encoded.keys[begin:end].count(None),
        )

    def _pass_over(self, row: int, why: str | None) -> None:
        """Leave out a row that is no record. ``why``: None if it is no row at all."""
        if why is None:
            self.progress = replace(self.progress, rows=row + 1)
            return
        if not self._skips:
            raise FileError(
                f"row {row + 1}: {why}. The rows before it are written. Give --on-error skip to leave out such rows"
            )
        if len(self.refused) < _REFUSED_KEPT:
            self.refused[self._name, row] = f"{self._name!r}, row {row + 1}: {why}"
        self.progress = replace(self.progress, rows=row + 1, skipped=self.progress.skipped + 1)
