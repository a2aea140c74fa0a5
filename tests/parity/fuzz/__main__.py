"""``python -m tests.parity.fuzz --seconds 300 --seed 7``, or ``make fuzz-parity SECONDS=300 SEED=7``.

A quarter of the time goes to cases of what Kafka Streams lacks, which are compared with a reference model; ``--model``
plays these alone, without a JVM.

``--backfilled`` plays the corpus, and then random cases of Kafka Streams' shapes, in backfills without Spark, and
compares these with live tasks. ``--exactly-once`` lets actors under ``exactly_once_v2`` play the same; they are killed,
fenced and moved, and what they have committed is compared with tasks without faults.
"""

from __future__ import annotations

import logging
import random
from itertools import chain, count
from typing import Annotated

import structlog
import typer

from tests.live.shapes import every_shape
from tests.parity import corpus
from tests.parity.fuzz.against_backfill import BackfillReport, hold_against_tasks
from tests.parity.fuzz.against_model import ModelReport, hold_against_model
from tests.parity.fuzz.generate import generate
from tests.parity.fuzz.own import generate_own
from tests.parity.fuzz.run import Difference, Report, fuzz, numbered
from tests.parity.fuzz.under_exactly_once import TroubledReport, hold_under_exactly_once
from tests.parity.oracle import KAFKA_VERSION, KafkaStreams, run

_SHARE_OF_MODEL = 0.25


def main(
    seconds: Annotated[float, typer.Option(min=0, help="Seconds of cases; minimising takes longer.")] = 300,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the cases. By default a random one, which is printed.")
    ] = None,
    case: Annotated[int | None, typer.Option(min=0, help="Play this one case of the seed only.")] = None,
    model: Annotated[bool, typer.Option("--model", help="Only cases that are held against the model.")] = False,
    backfilled: Annotated[bool, typer.Option("--backfilled", help="Only in backfills, against live tasks.")] = False,
    exactly_once: Annotated[
        bool, typer.Option("--exactly-once", help="Only by actors under exactly_once_v2, with faults.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help=f"Add what differs to {corpus.FOUND}, made small.")] = False,
    kafka_streams: Annotated[str, typer.Option(help="The version of Kafka Streams to play on.")] = KAFKA_VERSION,
) -> None:
    """Play random cases on Kafka Streams and on penstock and make small what differs; exit 1 if anything does."""
    if backfilled + exactly_once + model > 1 or ((backfilled or exactly_once) and keep):
        raise typer.BadParameter("--backfilled, --exactly-once and --model go alone, and the first two not with --keep")
    if model and keep:
        raise typer.BadParameter(f"{corpus.FOUND} keeps no cases of the model: what differs from it is shown")
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )  # records of cases are late
    chosen = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    typer.echo(f"seed {chosen}" + ("" if model or backfilled or exactly_once else f", Kafka Streams {kafka_streams}"))
    cases = numbered(chosen) if case is None else iter([generate(chosen, case)])
    given = chain.from_iterable(every_shape().values()) if case is None else ()
    if exactly_once:
        troubled = hold_under_exactly_once(chain(given, cases), chosen, seconds, typer.echo)
        typer.echo(told_of_exactly_once(troubled))
        raise typer.Exit(1 if troubled.differences else 0)
    if backfilled:
        in_backfills = hold_against_tasks(chain(given, cases), seconds, typer.echo)
        typer.echo(told_of_backfills(in_backfills))
        raise typer.Exit(1 if in_backfills.differences else 0)
    report, against_model = Report(), ModelReport()
    if not model:
        share = 1 if case is not None else 1 - _SHARE_OF_MODEL
        with KafkaStreams(kafka_streams) as oracle:
            report = fuzz(oracle, cases, share * seconds, typer.echo)
        typer.echo(reported(report))
        if keep:
            _keep(report.differences)
        elif report.differences:
            typer.echo(f"To keep one: make fuzz-parity SEED={chosen} CASE=<its last number> KEEP=1")
    if model or case is None:
        own = (generate_own(chosen, number) for number in (count() if case is None else [case]))
        hold_against_model(own, seconds * (1 if model else _SHARE_OF_MODEL), typer.echo, against_model)
        typer.echo(told_of_model(against_model))
        if against_model.differences:
            typer.echo(f"To play one again: make fuzz-parity SEED={chosen} CASE=<its last number> MODEL=1")
    raise typer.Exit(1 if report.differences or against_model.differences else 0)


def reported(report: Report) -> str:
    """Returns the summary of a run, in a few lines."""
    shares = ", ".join(f"{kind} {count / max(report.cases, 1):.0%}" for kind, count in report.message.most_common())
    large = f"\n{report.too_large} cases more are too large to play" if report.too_large else ""
    known = "".join(f"\nerrors of Kafka Streams' own: {count} times {why}" for why, count in report.known.items())
    return (
        f"{report.cases:,} cases, {report.refused} of them refused by both, {report.restarted} also restarted, "
        f"{len(report.differences)} differ\n"
        f"cases that make something: {shares}{large}{known}"
    )


def told_of_model(report: ModelReport) -> str:
    """Returns the summary of the cases that were compared with the model."""
    shapes = ", ".join(f"{shape} {many}" for shape, many in report.shapes.most_common())
    return (
        f"{report.cases:,} cases against the model ({shapes}), {report.plays:,} plays with those that were restarted, "
        f"{len(report.differences)} differ"
    )


def told_of_backfills(report: BackfillReport) -> str:
    """Returns the summary of a run with ``--backfilled``."""
    return (
        f"{report.cases:,} cases in {report.backfills:,} backfills, {report.refused} of them refused, "
        f"{len(report.differences)} differ"
    )


def told_of_exactly_once(report: TroubledReport) -> str:
    """Returns the summary of a run with ``--exactly-once``."""
    plays = ", ".join(f"{way} {many}" for way, many in report.plays.items())
    faults = ", ".join(f"{what} {many}" for what, many in report.faults.most_common())
    left_out = "".join(f"\nleft out {many}: {why}" for why, many in report.left_out.most_common())
    return (
        f"{report.cases:,} plays ({plays}), {report.refused} refused, {len(report.differences)} differ\n"
        f"{report.faults.total():,} faults ({faults}); {report.restarts:,} times an actor's tasks were made anew; "
        f"{report.aborted:,} records of aborted transactions{left_out}"
    )


def _keep(differences: list[Difference]) -> None:
    kept = corpus.read(corpus.FOUND)
    names = {case["name"] for case in kept}
    new = [each.case for each in differences if each.attempts and each.case["name"] not in names]
    corpus.write(corpus.FOUND, [*kept, *new])
    typer.echo(f"{len(new)} cases are added to tests/parity/{corpus.FOUND}")


if __name__ == "__main__":
    run(main)
