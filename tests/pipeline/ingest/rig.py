"""An ingest from a folder into a topic of the fake broker; its lanes run one after the other, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import KafkaClients
from penstock.pipeline.ingest import ingest
from penstock.pipeline.ingest.contracts import CsvForm, FileFormat
from penstock.pipeline.ingest.files import Source, find_source
from penstock.pipeline.ingest.ingest import Ingest, IngestReport, RunLanes
from penstock.pipeline.ingest.job import IngestJob
from penstock.pipeline.ingest.lane import LaneReport, LaneWriter
from penstock.pipeline.ingest.mapping import RecordMapping
from penstock.pipeline.ingest.plan import Lane
from penstock.testing.fake_broker import FakeRecord
from penstock.testing.fake_clients import FakeClients

TOPIC = "views"


def write_parquet(file: Path, rows: Sequence[dict[str, Any]], schema: pa.Schema | None = None, groups: int = 3) -> None:
    """Write rows as Parquet, ``groups`` rows in each row group."""
    file.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows, schema), file, row_group_size=groups)


def write_json_lines(file: Path, rows: Sequence[Any]) -> None:
    """Write rows as JSON Lines; text as it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))


class Rig:
    """A folder and a fake broker with the topic ``views``."""

    def __init__(self, folder: Path, partitions: int = 4) -> None:
        self.folder = folder / "source"
        self.folder.mkdir()
        self.clients = FakeClients("ingest", read_committed=True)
        self.broker = self.clients.broker
        self.partitions = partitions
        self.clients.admin().create_topics([NewTopic(TOPIC, partitions)])
        self.source: Source | None = None
        self.waited: list[float] = []
        self.on_wait: Callable[[], None] = lambda: None

    def ingest(
        self,
        *,
        form: CsvForm = CsvForm(),  # noqa: B008, a value
        given: FileFormat | None = None,
        skips: bool = False,
        id_: str = "load",
        clients: KafkaClients | None = None,
        **mapping: Any,
    ) -> IngestReport:
        """Run an ingest of the folder, with the mapping of these fields."""
        # The watch calls Kafka in a thread of its own, whose calls would come in any order.
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ingest, "Watch", lambda *_: nullcontext())
            return self._ingest(form, given, skips, id_, clients, mapping)

    def _ingest(
        self,
        form: CsvForm,
        given: FileFormat | None,
        skips: bool,
        id_: str,
        clients: KafkaClients | None,
        mapping: dict[str, Any],
    ) -> IngestReport:
        source = self.source or find_source(str(self.folder), {}, given)
        record_mapping = RecordMapping(TOPIC, self.partitions, **mapping)
        return Ingest(id_, source, record_mapping, form, clients or self.clients, skips).run(self.lanes())

    @contextmanager
    def lanes(self) -> Iterator[RunLanes]:
        """Yields the function that runs the lanes."""
        yield self.run_lanes

    def run_lanes(self, job: IngestJob, lanes: Sequence[Lane]) -> list[LaneReport]:
        """Run the lanes as Spark's tasks do."""
        reports = []
        for lane in lanes:
            try:
                reports.append(LaneWriter(job, lane, wait=self._wait).run())
            except StreamsError as error:
                reports.append(LaneReport((str(error),), ()))
        return reports

    def _wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.on_wait()

    def records(self) -> list[FakeRecord]:
        """Returns the committed records of the topic, partition by partition."""
        return self.broker.records(TOPIC)

    def partition(self, number: int) -> list[FakeRecord]:
        """Returns the committed records of a partition of the topic."""
        with self.broker.changed:
            log = self.broker.log(TopicPartition(TOPIC, number))
            return [record for record in log.records if record.is_committed]

    def values(self) -> list[Any]:
        """Returns the values of the topic's records, as JSON, partition by partition."""
        return [None if record.value is None else json.loads(record.value) for record in self.records()]
