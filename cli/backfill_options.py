"""The options of ``penstock backfill``."""

from __future__ import annotations

from typing import Annotated

import typer

_BOUND = "TOPIC:PARTITION:OFFSET,…, a JSON file with such offsets, or a time (ms, or ISO 8601 with its zone)"

Target = Annotated[str, typer.Argument(metavar="MODULE:APP", help="Such as examples.word_count:app")]
Begin = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="BOUND",
        help=f"Beginning of the history: earliest, {_BOUND}. By default the committed offsets; in a dry run earliest",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="BOUND",
        help=f"End of the history: latest, {_BOUND}. By default latest; in a dry run the committed offsets",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an unfinished backfill, if there is one")]
Source = Annotated[
    list[str] | None,
    typer.Option(
        metavar="kafka|URL",
        help="Source of the history: Kafka (the default) or an archive. With --source URL --source kafka, the archive "
        "up to its last offset, and Kafka after it",
    ),
]
Output = Annotated[
    str,
    typer.Option(
        metavar="kafka|URL|none",
        help="Destination of results and state: the application, Parquet files at a URL or in a folder, or none",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Compute the state again and compare it with the changelogs; change nothing")
]
Explain = Annotated[bool, typer.Option("--explain", help="Show the plan, and do nothing")]
AllowWallClock = Annotated[
    bool, typer.Option("--allow-wall-clock", help="Accept punctuators by the wall clock, which a backfill never calls")
]
