"""``penstock ingest``: the work before and after the lanes. Each run continues where the last one ended."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass

from penstock.common.errors import ConfigError, StreamsError
from penstock.common.shown import counted
from penstock.kafka.clients import KafkaClients
from penstock.kafka.noted_transactions import transactions
from penstock.pipeline.ingest.checks import check_files
from penstock.pipeline.ingest.contracts import CsvForm, SourceFile
from penstock.pipeline.ingest.files import Source
from penstock.pipeline.ingest.job import IngestJob
from penstock.pipeline.ingest.lane import LaneReport
from penstock.pipeline.ingest.mapping import RecordMapping
from penstock.pipeline.ingest.plan import IngestPlan, Lane, plan_ingest
from penstock.pipeline.ingest.progress import Progress, ProgressTopic, Run, file_record, run_record
from penstock.pipeline.ingest.watch import Report, Watch

RunLanes = Callable[[IngestJob, Sequence[Lane]], Iterable[LaneReport]]
"""Runs all lanes, and returns their reports."""
SNAPSHOT = "the table's snapshot"
"""The setting by which a later run finds the files of the first one."""
_FENCED_AT_ONCE = 8
_MESSAGES = 5


@dataclass(frozen=True)
class IngestReport:
    """The result of a run. ``records``: number of records that it has written, of which ``null_keys`` have a null key.
    ``skipped``: number of rows that could not become records, with messages about some of them in ``refused``.
    ``files``: number of files that were not done before, of ``all_files``. ``seconds``: time since Spark started."""

    records: int
    null_keys: int
    skipped: int
    refused: tuple[str, ...]
    files: int
    all_files: int
    seconds: float


def snapshot_of(id_: str, clients: KafkaClients) -> str:
    """Returns the snapshot of a table with which the ingest of this id has begun; empty if it has not."""
    topic = ProgressTopic(id_)
    if topic.name not in clients.admin().topics():
        return ""
    run = topic.read(clients, wait=False).run
    return "" if run is None else run.settings.get(SNAPSHOT, "")


@dataclass(frozen=True)
class Ingest:
    """An ingest: the files, the mapping of their rows to records, and the clients, which read committed records.

    ``id`` names the ingest: with the same id, a run continues what others have begun.
    """

    id: str
    source: Source
    mapping: RecordMapping
    csv: CsvForm
    clients: KafkaClients
    skips_refused: bool = False

    def run(self, lanes: AbstractContextManager[RunLanes], report: Report = lambda progress: None) -> IngestReport:
        """Write all rows that are not in the topic yet, each exactly once. ``report`` is called with the progress each
        second. ``lanes`` is entered when all is checked that can be checked before.

        Raises ConfigError if files, columns or settings do not fit, MissingTopicError, ObjectStoreError, other
        StreamsErrors of Kafka, and StreamsError when files could not be written: the message names them. All rows that
        were written before remain, and the next run continues behind them.
        """
        begun = time.monotonic()
        admin = self.clients.admin()
        topic = ProgressTopic(self.id)
        before = topic.read(self.clients, wait=False) if topic.name in admin.topics() else Progress()
        topic_id = admin.topic_ids([self.mapping.topic]).get(self.mapping.topic, "")
        _refuse_another_topic(before, topic_id, self.mapping.topic)
        plan = plan_ingest(self.source.files, before, self._settings())
        objects = self.source.location.open()
        new = [file for file in self.source.files if file.name in plan.new]
        check_files(objects, new, self.mapping, self.csv, self.source.check_columns)
        reports: list[LaneReport] = []
        after, plan_now = before, plan
        if plan.lanes:
            with lanes as run_lanes:
                begun = time.monotonic()
                topic.create(admin)
                job = self._job()
                before, plan_now = self._begin(job, topic_id)
                with Watch(self.clients, topic, report):
                    reports = list(run_lanes(job, plan_now.lanes))
            after = topic.read(self.clients, wait=True)
        made = IngestReport(
            after.records - before.records,
            after.null_keys - before.null_keys,
            after.skipped - before.skipped,
            tuple(text for each in reports for text in each.refused),
            plan_now.files,
            len(self.source.files),
            time.monotonic() - begun,
        )
        self._require_all(made, reports, after, plan_now)
        return made

    def _job(self) -> IngestJob:
        return IngestJob(
            self.id, uuid.uuid4().hex, self.source.location, self.mapping, self.csv, self.clients, self.skips_refused
        )

    def _settings(self) -> dict[str, str]:
        given: Mapping[str, str] = {
            "--format": ", ".join(sorted({file.format for file in self.source.files})),
            SNAPSHOT: self.source.snapshot,
            "--csv-delimiter": "" if self.csv.delimiter == "," else self.csv.delimiter,
            "--column-type": ", ".join(f"{name}={kind}" for name, kind in sorted(self.csv.types.items())),
        }
        return {**self.mapping.settings(), **{name: value for name, value in given.items() if value}}

    def _begin(self, job: IngestJob, topic_id: str) -> tuple[Progress, IngestPlan]:
        """End what earlier runs have open, and note the new run and its files; returns the progress before it, and its
        plan. Of two drivers at the same time, Kafka lets one begin a run."""
        topic = job.progress_topic
        with transactions(self.clients, f"{self.id}-ingest-driver", topic.name) as writer:
            known = topic.read(self.clients, wait=False)
            unfinished = {each.lane for each in known.files.values() if not each.done}
            with ThreadPoolExecutor(_FENCED_AT_ONCE) as pool:
                # Else each reader of the progress would wait for transactions that were left open.
                list(pool.map(lambda lane: _fence(job, lane), sorted(unfinished)))
            known = topic.read(self.clients, wait=True)
            plan = plan_ingest(self.source.files, known, self._settings())
            run = Run(job.run, int(time.time() * 1000), topic_id, self._settings())
            writer.commit([run_record(run), *(file_record(name, each) for name, each in plan.new.items())])
        return known, plan

    def _require_all(
        self, made: IngestReport, reports: Sequence[LaneReport], after: Progress, plan: IngestPlan
    ) -> None:
        failures = [text for each in reports for text in each.failures]
        failures += [
            f"{name!r} is gone before all of its rows were written ({after.files[name].rows:,} are): put it back"
            for name in plan.gone
        ]
        undone = [file.name for file in _files(plan) if not after.files[file.name].done]
        if not failures and undone:
            failures.append(f"{len(undone)} files are not finished, such as {undone[0]!r}")
        if failures:
            more = f"; and {len(failures) - _MESSAGES} more" if len(failures) > _MESSAGES else ""
            written = counted(made.records, "record")
            raise StreamsError(
                f"the ingest into {self.mapping.topic!r} is not complete: {'; '.join(failures[:_MESSAGES])}{more}. "
                f"In this run it wrote {written}. Run it again: it continues where this run ended"
            )


def _files(plan: IngestPlan) -> list[SourceFile]:
    return [file for lane in plan.lanes for file in lane.files]


def _fence(job: IngestJob, lane: int) -> None:
    with transactions(job.clients, job.transactional_id(lane), job.progress_topic.name):
        pass


def _refuse_another_topic(progress: Progress, topic_id: str, topic: str) -> None:
    run = progress.run
    if run is not None and run.topic_id and topic_id and run.topic_id != topic_id:
        raise ConfigError(
            f"topic {topic!r} was deleted and created again since {progress.rows:,} rows were written to it: give "
            "another --id to write all rows to the new topic"
        )
