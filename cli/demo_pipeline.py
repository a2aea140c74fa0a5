"""``make demo-pipeline``: live processing on Ray and history on Spark, a day in small, by docs/PIPELINE.md's commands.

Everything is in a new directory, which is deleted at the end. ``--views N`` sets the number of page views.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.text import Text

from penstock.cli.demo import catch_signals, start_ray
from penstock.cli.demo_day import Day, free_port
from penstock.cli.output import console
from penstock.common.errors import ConfigError, StreamsError

_VIEWS = 150_000
_WORTH_A_CHECKPOINT = 100_000
_FIRST, _SECOND = "page-views", "page-views-with-visits"
_SOURCES = ("profiles", "page-views")
_INGEST_VIEWS = (
    "penstock ingest views --topic page-views --key-column user --timestamp-column at "
    "--value-column page --value-column seconds"
)
_ARCHIVE = "penstock archive profiles page-views --to archive --once"
_VISITS = f"{_SECOND}-visits-changelog"
_FORM = "--json --key bytes --value json"


def main(arguments: Sequence[str] = ()) -> int:
    """Play the day; returns the exit code. 0: each command did what it should; 1: one did not; 130: interrupted."""
    parser = argparse.ArgumentParser("make demo-pipeline", description=__doc__)
    parser.add_argument("--views", type=int, default=_VIEWS)
    views: int = parser.parse_args(arguments).views
    shown = console()
    catch_signals()
    began = time.monotonic()
    try:
        with ExitStack() as stack:
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-day-", ignore_cleanup_errors=True))
            )
            with shown.status("starting a Ray of the demo's own"):
                address = start_ray(stack)
            play(stack.enter_context(Day(folder, shown, address)), folder, views)
    except KeyboardInterrupt:
        shown.print("\ninterrupted: everything that was started has ended")
        return 130
    except StreamsError as error:
        shown.print(Text(str(error), style="red"), soft_wrap=True)
        return 1
    _goodbye(shown, time.monotonic() - began)
    return 0


def play(day: Day, folder: Path, views: int) -> None:
    """Run all commands of the day."""
    _prepare(day, folder, views)
    _live(day)
    _history(day)
    _go_on(day, views)
    _audit(day)


def _prepare(day: Day, folder: Path, views: int) -> None:
    programs = sorted(Path("examples").glob("page_views*.py"))
    if not programs:
        raise ConfigError(f"{Path.cwd()} has no examples/page_views.py: run this in the folder of penstock's sources")
    for program in programs:
        shutil.copy(program, folder)
    port = free_port()
    day.step(
        "Kafka, and a day's files", "A broker of the demo's own, three topics, and Parquet files made from a seed."
    )
    day.at_the_end(f"penstock broker stop --dir kafka --port {port}")
    day.run(f"penstock broker start --dir kafka --port {port}")
    day.export("PENSTOCK_BOOTSTRAP_SERVERS", f"127.0.0.1:{port}")
    day.run("penstock topic create page-views region-views --partitions 2")
    day.run("penstock topic create profiles --partitions 2 --config cleanup.policy=compact")
    day.run(f"python page_views_data.py --views {views}")


def _live(day: Day) -> None:
    day.step("Files into topics, an application on Ray", "The first version counts views per region and minute.")
    day.run(
        "penstock ingest profiles --topic profiles --key-column user --timestamp-column since "
        "--value-column name --value-column region"
    )
    day.start(_FIRST, "page_views:app", "version-1.log")
    day.run(_INGEST_VIEWS)
    day.caught_up(_FIRST, _SOURCES)
    day.run(f"penstock status {_FIRST}")


def _history(day: Day) -> None:
    day.step("Topics into an archive", "Parquet files that outlive Kafka's retention. Each record is there once.")
    day.run(_ARCHIVE)
    day.run("penstock archive list archive")
    day.step(
        "A new version gets its history by Spark",
        "The second version also keeps the visits of each user. Spark runs its topology over the archive, and hands "
        "its state over, as checkpoints and in changelogs. The first version continues meanwhile.",
    )
    day.run("penstock backfill page_views:app_with_visits --source archive")
    day.run("find page-views-files/checkpoints -name '*.json'")


def _go_on(day: Day, views: int) -> None:
    day.step(
        "The new version continues live",
        "Its tasks begin with the state and offsets that Spark handed over. Then the afternoon's file is ingested.",
    )
    day.stop(_FIRST)
    day.start(_SECOND, "page_views:app_with_visits", "version-2.log")
    day.run("mv later/afternoon.parquet views/")
    day.run(_INGEST_VIEWS)
    day.caught_up(_SECOND, _SOURCES)
    if views >= _WORTH_A_CHECKPOINT:  # a smaller state is restored from changelogs
        day.run("grep -o 'downloading a checkpoint .*' version-2.log")
    day.run(f"penstock query {_SECOND} visits user-7 --reverse --limit 5")
    day.run(_ARCHIVE)


def _audit(day: Day) -> None:
    day.step("The audit", "Spark computes all stores again from the topics; each row is compared with the live one.")
    day.run("penstock audit page_views:app_with_visits")
    day.step(
        "A corrupted row",
        "While the application is stopped, a wrong visit is written to its changelog. The next start restores it.",
    )
    day.stop(_SECOND)
    day.run(
        f'penstock topic read {_VISITS} {_FORM} | grep pages | tail -n 1 | sed \'s/"pages":[0-9]*/"pages":999/\' | '
        f"penstock topic send {_VISITS} {_FORM}"
    )
    day.start(_SECOND, "page_views:app_with_visits", "version-2-again.log")
    day.run("penstock audit page_views:app_with_visits", expected=3)
    day.step("The archive without penstock", "DuckDB reads its Parquet files.")
    day.run("python page_views_report.py archive")


def _goodbye(shown: Console, seconds: float) -> None:
    shown.print()
    shown.print(f"The day took {seconds:.0f} s. docs/PIPELINE.md explains each command.", style="dim")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
