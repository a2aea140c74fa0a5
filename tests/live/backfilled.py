"""Cases whose history is played by Spark, and the rest by the live application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.checkpoints.repository import CheckpointRepository
from penstock.common.config import StreamsConfig
from penstock.common.metric_names import TASK
from penstock.kafka.clients import ConfluentClients
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.opening import ArchiveTask, open_run
from penstock.pipeline.archive.run import ArchiveRun
from penstock.pipeline.archive.spark_tasks import SparkTasks
from penstock.pipeline.backfill.backfill import BackfillOptions, backfill
from tests.live.bunches import Bunch, Case
from tests.live.play import Expected, Outcome, compared, excluded, forgets, halves, play_live
from tests.live.rig import LiveBunch
from tests.parity import restarts
from tests.parity.ops_own import IDLE


@dataclass(frozen=True)
class Way:
    """The way of history to the live application: read from Kafka or an archive, handed over by changelogs alone or by
    checkpoints too, on so many partitions."""

    archive: bool = False
    checkpoints: bool = False
    partitions: int = 4

    def forgets(self, case: Case) -> bool:
        """Returns True if a restart shows. Checkpoints have the stores without a changelog, too."""
        return restarts.forgets(case) if self.checkpoints else forgets(case)

    def __str__(self) -> str:
        source, form = "archive" if self.archive else "Kafka", "checkpoints" if self.checkpoints else "changelogs"
        return f"from {source}, by {form}, {self.partitions} partitions"


WAYS = [Way(*each) for each in product((False, True), (True, False), (4, 1))]
ALONE = Way()


def excluded_from_backfill(case: Case) -> str | None:
    """Returns the reason why a case cannot be compared; None if it can."""
    if IDLE in case["config"]:
        return "goes on by the wall clock, which history has not"
    return excluded(case)


def way_of(bunch: Bunch, seed: int) -> Way:
    """Returns the way of a bunch with a number in its name. With as many seeds as there are ways, it has had all."""
    return WAYS[(int(bunch.name.rpartition("-")[2]) + seed) % len(WAYS)]


def play_backfilled(
    bunch: Bunch,
    broker: str,
    application_id: str,
    state: Path,
    way: Way = ALONE,
    seed: int = 0,
    spark: SparkSession | None = None,
) -> Outcome:
    """Plays the first part by Spark, the second one live. ``seed``: see :func:`halves`. ``spark`` archives.

    Spark takes the records of repartition topics by their times, as a case does whose records come in order."""
    bunch = replace(bunch, partitions=way.partitions)
    cut = [halves(bunch, case, in_order=True, seed=seed) for case in bunch.cases]
    expected = Expected(bunch, application_id, cut, way.forgets)
    found: list[str] = []
    with closing(LiveBunch(bunch, broker, application_id)) as live:
        if way.checkpoints:
            live.checkpoints = state / "objects"
        for first, _ in cut:
            live.send((*first.filled, *first.records))
        options = BackfillOptions()
        if way.archive:
            assert spark is not None
            location = ObjectLocation(str(state / "archive"))
            archive(bunch, broker, location, spark)
            options = BackfillOptions(archive=location, kafka_too=False)
        config = StreamsConfig.of(live.configuration(state / "history"))
        backfill(bunch.built.topology, config, "local[2]", options=options)

        def started() -> None:
            if way.checkpoints:
                found.extend(_not_from_checkpoints(live))

        stores = play_live(live, [second for _, second in cut], state / "live", {}, started)
        outcome = compared(bunch, expected, live.written(), stores, application_id, backfilled=True)
    if found:
        outcome.differences[bunch.cases[0]["name"]][:0] = found
    return outcome


def archive(bunch: Bunch, broker: str, location: ObjectLocation, spark: SparkSession) -> None:
    """Archive all that the application reads."""
    config = {"application.id": "archive", "bootstrap.servers": broker, "consumer.isolation.level": "read_committed"}
    clients = ConfluentClients.of(StreamsConfig.of(config))
    task = ArchiveTask(sorted(bunch.built.inputs), location, clients)
    ArchiveRun(task, open_run(task, location.open()), SparkTasks(spark), lambda _: None).run()


def _not_from_checkpoints(live: LiveBunch) -> Iterator[str]:
    """Yields the tasks that have not begun with what was handed over, but have read their changelogs. One that has come
    to another actor meanwhile has done neither: its stores were on the disk."""
    assert live.app is not None
    assert live.checkpoints is not None
    repository = CheckpointRepository(ObjectLocation(str(live.checkpoints)).open(), live.application_id)
    handed_over = repository.newest_hand_over()
    if handed_over is None:
        yield "no checkpoints were handed over"
        return
    tasks = {str(it.task_id): it for it in live.app.status().tasks}
    for task in handed_over.tasks:
        checkpoint = handed_over.checkpoint(task)
        assert checkpoint is not None
        found, wanted = tasks[task].measured.get((TASK, "checkpoint-restored-bytes")), checkpoint.size
        logged = sum(store.changelog_offset or 0 for store in checkpoint.stores.values())
        if found != wanted and 0 < logged <= tasks[task].restore_total:
            yield f"task {task} has downloaded {found} bytes, and its part of the hand-over has {wanted}"
