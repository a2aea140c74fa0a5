"""The end of a backfill: results and final state go to Kafka, the offsets last, and the live application continues."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from typing_extensions import override

from penstock.common.config import StreamsConfig
from penstock.common.errors import StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.backfill_note import withdraw_note, write_note
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import Admin, RecordProducer
from penstock.pipeline.backfill.contracts import HandOver
from penstock.pipeline.backfill.stage_rows import StageRows
from penstock.pipeline.backfill.work import RunOwner
from penstock.pipeline.rows import WRITTEN_ARROW, WRITTEN_SCHEMA, headers_of
from penstock.pipeline.spark.causes import causes_named

_FLUSH_TIMEOUT_S = 300.0
_LOOK_EACH_S = 5.0


@dataclass(frozen=True)
class RecordWriter:
    """Writes rows of ``OUTPUT_SCHEMA`` to their topics, in order; ``run`` is given to ``mapInArrow``.

    Before a batch it looks if ``owner`` may still write, at most every 5 s. A worker may outlive its process, or be
    frozen for hours. What it wrote after the application has started again would count as newer than the application's
    own rows.
    """

    clients: KafkaClients
    owner: RunOwner

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the number of rows written to each topic, when Kafka has acknowledged all of them. Raises
        ApplicationStateError if ``owner`` may not write any more."""
        written: Counter[str] = Counter()
        batches = (batch for batch in batches if len(batch))
        if (first := next(batches, None)) is not None:  # with many stages, most partitions write nothing
            looked_s = -_LOOK_EACH_S
            with closing(self.clients.producer()) as producer:
                for batch in chain([first], batches):
                    if time.monotonic() - looked_s >= _LOOK_EACH_S:
                        self.owner.refuse_if_superseded()
                        looked_s = time.monotonic()
                    written.update(_send(producer, batch))
                    producer.poll()
                if not producer.flush(_FLUSH_TIMEOUT_S):
                    raise StreamsError(f"Kafka did not acknowledge what was written within {_FLUSH_TIMEOUT_S:.0f} s")
        columns = [pa.array(written.keys(), pa.string()), pa.array(written.values(), pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, schema=WRITTEN_ARROW)


def _send(producer: RecordProducer, batch: pa.RecordBatch) -> list[str]:
    names = ("topic", "key", "value", "timestamp", "partition")
    columns: list[list[Any]] = [batch.column(name).to_pylist() for name in names]
    headers = headers_of(batch.column("headers")) or [None] * len(batch)
    for topic, key, value, timestamp, partition, own in zip(*columns, headers, strict=True):
        producer.send(topic, key, value, timestamp, own, partition)
    return columns[0]


@dataclass(frozen=True)
class KafkaHandOver(HandOver):
    """Writes results to their topics, state to the changelogs, and the offsets last, to the application's group.

    ``changelog_ends``: the end of each changelog before any rows of an unfinished backfill. They are noted first, so
    that a later attempt restores only what is before them. ``started_from``: the fingerprint of the committed offsets.
    ``owner``: the process that hands over, as long as it owns the run.
    """

    config: StreamsConfig
    clients: KafkaClients
    admin: Admin
    changelog_ends: Mapping[TopicPartition, int]
    started_from: str
    owner: RunOwner

    @override
    def note(self) -> None:
        write_note(self.admin, self.config.application_id, self.changelog_ends, self.started_from)

    @override
    def results(self, rows: StageRows) -> Mapping[str, int]:
        return self._write(rows)

    @override
    def state(self, rows: StageRows) -> Mapping[str, int]:
        return self._write(rows)

    @override
    def offsets(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.admin.commit(self.config.application_id, offsets)

    @override
    def withdraw(self) -> None:
        withdraw_note(self.admin, self.config.application_id, self.changelog_ends)

    def _write(self, rows: StageRows) -> Mapping[str, int]:
        written: Counter[str] = Counter()
        try:
            with causes_named("the backfill cannot write to Kafka; run it again with --resume"):
                for row in rows.consumed(RecordWriter(self.clients, self.owner).run, WRITTEN_SCHEMA):
                    written[row["topic"]] += row["written"]
        except StreamsError:
            self.owner.refuse_if_superseded()  # this run must not be resumed, then
            raise
        return dict(written)
