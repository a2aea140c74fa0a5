"""``penstock backfill``: the history of an application's topics by Spark, the rest by the application itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.table import Table

from penstock.cli import backfill_options as options
from penstock.cli.loading import load_application
from penstock.cli.output import console as standard_output
from penstock.cli.spark_options import ConfOption, MasterOption, WorkOption, interruptible, spark_extra, spark_place
from penstock.cli.step_progress import shown_progress
from penstock.common.errors import ConfigError
from penstock.common.shown import counted

if TYPE_CHECKING:
    from penstock.pipeline.backfill.backfill import BackfillReport


def register(app: typer.Typer) -> None:
    """Mount ``backfill`` on the root."""
    app.command("backfill")(_backfill)


def _backfill(
    target: options.Target,
    begin: options.Begin = None,
    until: options.Until = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    work: WorkOption = None,
    resume: options.Resume = False,
    source: options.Source = None,
    output: options.Output = "kafka",
    dry_run: options.DryRun = False,
    explain: options.Explain = False,
    allow_wall_clock: options.AllowWallClock = False,
) -> None:
    """Process the records that the topics hold with Spark. The application, which must be stopped, then continues from
    there."""
    interrupted = (
        f"The backfill of {target} was interrupted. Run it again: with --resume it continues from what is finished. "
        "State and offsets come out the same; results that it had written are written again"
    )
    with interruptible(interrupted):
        with spark_extra():
            from penstock.objects.storage import ObjectLocation
            from penstock.pipeline.backfill.backfill import KAFKA, NONE, BackfillOptions, backfill
            from penstock.pipeline.backfill.backfill import explain as explain_backfill
            from penstock.pipeline.backfill.bounds import bounds_of
            from penstock.pipeline.backfill.compare import in_words
        bounds = bounds_of(begin, until, recompute=dry_run)
        archive, kafka_too = _sources(source or [KAFKA])
        application = load_application(target)
        topology, config = application.topology, application.config

        def at(url: str) -> ObjectLocation:
            return ObjectLocation(url, config.object_store_settings)

        chosen = BackfillOptions(
            bounds,
            None if work is None else at(work),
            resume,
            allow_wall_clock,
            output if output in (KAFKA, NONE) else at(output),
            None if archive is None else at(archive),
            kafka_too,
        )
        if explain:
            for line in explain_backfill(topology, config, chosen):
                typer.echo(line)
            return
        with shown_progress() as progress:
            report = backfill(topology, config, spark_place(master, conf), progress, chosen)
    console = standard_output()
    console.print(summary(report))
    for line in in_words(report.compared, report.not_compared):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _sources(given: list[str]) -> tuple[str | None, bool]:
    """Returns the URL of the archive, if there is one, and True if Kafka is read, too."""
    archives = [each for each in given if each != "kafka"]
    if len(archives) > 1:
        raise ConfigError(f"--source: history comes from one archive, not from {' and '.join(archives)}")
    return (archives[0] if archives else None), "kafka" in given


def summary(report: BackfillReport) -> Table:
    """Returns a table that shows people what a backfill did."""
    stages = "1 stage" if report.stages == 1 else f"{report.stages} stages"
    title = {"none": "Backfill without output", "dry-run": "Dry run"}.get(report.kind, "Backfill")
    table = Table(title=f"{title}: {stages} in {report.seconds:.1f} s", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("topic")
    table.add_column("records", justify="right")
    is_written = report.kind in ("kafka", "files")
    results = "written" if is_written else "results"
    for what, counts in (("read", report.read), (results, report.written), ("state", report.changelog_rows)):
        for topic, count in sorted(counts.items()):
            table.add_row(what, topic, f"{count:,}")
    if report.handed_over:
        table.add_row("checkpoints", "", counted(report.handed_over, "task"))
    if report.dropped:
        table.add_row("dropped", "", f"{report.dropped:,}")
    for note in report.notes:
        table.add_row("note", note, "")
    for partition, offset in sorted(report.committed.items()):
        table.add_row("committed" if report.kind == "kafka" else "next offset", str(partition), f"{offset:,}")
    return table
