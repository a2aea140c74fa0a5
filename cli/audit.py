"""``penstock audit``: compare a live application's stores with what Spark computes from the same records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.loading import load_application
from penstock.cli.output import AsJson, console, print_json
from penstock.cli.spark_options import ConfOption, MasterOption, WorkOption, interruptible, spark_extra, spark_place
from penstock.cli.step_progress import shown_progress
from penstock.common.errors import ConfigError
from penstock.common.shown import counted

if TYPE_CHECKING:
    from penstock.common.step_progress import Progress
    from penstock.kafka.clients import ConfluentClients
    from penstock.pipeline.audit.audit import AuditReport, ShownDifference, TakeImages
    from penstock.pipeline.audit.contracts import LiveStores
    from penstock.pipeline.audit.plan import AuditPlan
    from penstock.state.key_sample import KeySample

DIFFERENCES = 3
"""The exit code if rows differ: that of ``penstock plan`` if something would be lost. 1 is an error."""
_SHARE = re.compile(r"(\d+(?:\.\d+)?)%")
_MILLION = 1_000_000


def register(app: typer.Typer) -> None:
    """Mount ``audit`` on the root."""
    app.command("audit")(_audit)


def _audit(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Such as examples.word_count:app")],
    sample: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Audit only this share of the keys, such as 1%")
    ] = None,
    differences: Annotated[int, typer.Option(min=0, help="Number of differences that are shown for each store")] = 10,
    point_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Longest time to wait for an audit point of the application")
    ] = 60.0,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Read source topics from this archive up to its last offset, and from Kafka after it"
        ),
    ] = None,
    checkpoint: Annotated[
        bool,
        typer.Option(
            "--checkpoint",
            help="Compare with the newest checkpoints in object storage; the application need not run",
        ),
    ] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    work: WorkOption = None,
    allow_wall_clock: Annotated[
        bool,
        typer.Option("--allow-wall-clock", help="Accept punctuators by the wall clock, which Spark never calls"),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compute the stores of an application again with Spark, and compare them with the live ones or with checkpoints.

    Exit code 0: nothing differs. 3: rows differ. 1: the audit could not be done.
    """
    with interruptible("The audit was interrupted, and has changed nothing. Run it again"):
        given = _Given(
            target, differences, point_timeout, source, checkpoint, master, tuple(conf or ()), work, allow_wall_clock
        )
        report = _report(given, _sample(sample))
    if as_json:
        print_json(body(report))
    else:
        show(report, console(), "checkpoint" if checkpoint else "live")
    if not report.is_clean:
        raise typer.Exit(DIFFERENCES)


class _Given(NamedTuple):
    """Arguments and options of the command."""

    target: str
    differences: int
    point_timeout: float
    source: str | None
    checkpoint: bool
    master: str | None
    conf: tuple[str, ...]
    work: str | None
    allow_wall_clock: bool


def _report(given: _Given, sample: KeySample | None) -> AuditReport:
    with spark_extra():
        from penstock.objects.storage import ObjectLocation
        from penstock.pipeline.audit.audit import AuditOptions, audit
        from penstock.pipeline.audit.checkpoint_stores import NewestCheckpoints
    application = load_application(given.target)
    settings = application.config.object_store_settings
    archive, work = (None if url is None else ObjectLocation(url, settings) for url in (given.source, given.work))
    options = AuditOptions(sample, given.differences, archive, work, given.allow_wall_clock)
    place = spark_place(given.master, list(given.conf))
    with shown_progress() as progress:
        take: TakeImages = images_of(application.application_id, given.point_timeout, progress)
        if given.checkpoint:
            take = NewestCheckpoints(application.config, progress)
        return audit(application.topology, application.config, take, place, progress, options)


def images_of(application_id: str, within_s: float, progress: Progress = lambda now: None) -> TakeImages:
    """Returns the function that takes the images of a running application, in ``within_s`` seconds."""
    from penstock.cluster.client.live_images import take_live_images
    from penstock.cluster.queries.audit_point import Wave
    from penstock.common.step_progress import StepProgress

    def take(plan: AuditPlan, clients: ConfluentClients) -> LiveStores:
        progress(StepProgress("waiting for an audit point of the application"))
        waves = [Wave(wave.tasks, wave.reads, wave.intake) for wave in plan.waves]
        return take_live_images(application_id, clients, waves, plan.sources, plan.builders, within_s)

    return take


def _sample(given: str | None) -> KeySample | None:
    from penstock.state.key_sample import KeySample

    if given is None:
        return None
    found = _SHARE.fullmatch(given)
    per_million = round(float(found[1]) * _MILLION / 100) if found is not None else 0
    if not 1 <= per_million <= _MILLION:
        raise ConfigError(f"--sample {given!r}: give a share of the keys, such as 1%, from 0.0001% to 100%")
    return KeySample(per_million)


def show(report: AuditReport, to: Console, side: str = "live") -> None:
    """Print a report for people. ``side``: the column title of the rows that Spark's are compared with."""
    to.print(_title(report), highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for name in ("store", "computed", side, "differ"):
        table.add_column(name, justify="left" if name == "store" else "right")
    for store in report.stores:
        more = "" if not store.uncompared_ranges else " at least"
        differ = Text(f"{store.different:,}{more}", style="red" if store.differs else "")
        table.add_row(store.store, f"{store.expected:,}", f"{store.found:,}", differ)
    to.print(table)
    for difference in report.differences:
        to.print(in_words(difference, report), markup=False, highlight=False, soft_wrap=True)
    for name, why in sorted(report.not_compared.items()):
        to.print(f"{name}: not compared: {why}", markup=False, highlight=False, soft_wrap=True)
    if not report.is_clean:
        to.print("docs/AUDIT.md names differences that are not faults", highlight=False)


def _title(report: AuditReport) -> str:
    records = sum(report.read.values())
    part = "" if report.sample is None else f", {report.sample.per_million / 10_000:g}% of the keys"
    verdict = "nothing differs" if report.is_clean else "rows differ"
    return f"Audit: {verdict}; {records:,} records in {report.seconds:.1f} s{part}"


def in_words(difference: ShownDifference, report: AuditReport) -> str:
    """Returns the lines about one difference."""
    lines = [f"{difference.store}, task {difference.task}, key {difference.key}"]
    lines += [f"  expected  {difference.expected}", f"  found     {difference.found}"]
    for each in difference.origins:
        last = ", ".join(map(str, each.last))
        before = "…, " if each.records > len(each.last) else ""
        what = counted(each.records, "record")
        at = "offset" if each.records == 1 else "offsets"
        lines.append(f"  from      {each.partition}: {what} of the key, at {at} {before}{last}")
    if not difference.origins and difference.task in report.behind_repartition:
        lines.append("  from      records that got this key on their way through a repartition topic")
    return "\n".join(lines)


def body(report: AuditReport) -> dict[str, Any]:
    """Returns the report as an object of JSON."""
    return {
        "clean": report.is_clean,
        "stores": [
            {
                "store": store.store,
                "computed": store.expected,
                "live": store.found,
                "different": store.different,
                "different-is-exact": not store.uncompared_ranges,
            }
            for store in report.stores
        ],
        "differences": [_difference(each) for each in report.differences],
        "not-compared": dict(report.not_compared),
        "offsets": {str(at): offset for at, offset in sorted(report.offsets.items())},
        "records": dict(report.read),
        "sample-per-million": None if report.sample is None else report.sample.per_million,
        "seconds-on-hold": round(report.held_s, 3),
        "seconds": round(report.seconds, 3),
    }


def _difference(each: ShownDifference) -> Mapping[str, Any]:
    return {
        "store": each.store,
        "task": str(each.task),
        "key": each.key,
        "expected": each.expected,
        "found": each.found,
        "records": [
            {"partition": str(it.partition), "count": it.records, "last-offsets": list(it.last)} for it in each.origins
        ],
    }
