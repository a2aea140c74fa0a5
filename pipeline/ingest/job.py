"""The values that all lanes of a run share. They are shipped to Spark's executors."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.kafka.clients import KafkaClients
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.ingest.contracts import CsvForm
from penstock.pipeline.ingest.mapping import RecordMapping
from penstock.pipeline.ingest.progress import ProgressTopic


@dataclass(frozen=True)
class IngestJob:
    """One run of an ingest.

    ``id``: of the ingest, the same in all its runs. ``run``: of this run. ``clients`` read committed records.
    ``skips_refused``: rows that are no records are left out, and counted; otherwise such a row ends its file.
    """

    id: str
    run: str
    location: ObjectLocation
    mapping: RecordMapping
    csv: CsvForm
    clients: KafkaClients
    skips_refused: bool = False

    @property
    def progress_topic(self) -> ProgressTopic:
        """The topic that holds the progress."""
        return ProgressTopic(self.id)

    def transactional_id(self, lane: int) -> str:
        """Returns the ``transactional.id`` of a lane."""
        return f"{self.id}-ingest-{lane}"
