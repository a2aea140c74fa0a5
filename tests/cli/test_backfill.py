"""``penstock backfill`` on the command line."""

from __future__ import annotations

import io

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from penstock.cli import backfill
from penstock.cli.step_progress import Lines, shown_progress
from penstock.common.errors import ConfigError
from penstock.common.ids import TopicPartition
from penstock.common.step_progress import RECORDS, StepProgress
from penstock.pipeline.backfill.backfill import BackfillReport


def test_an_end_of_history_that_is_none_is_refused_before_anything_starts() -> None:
    app = typer.Typer()
    backfill.register(app)
    result = CliRunner().invoke(app, ["nowhere:app", "--until", "yesterday"])
    assert isinstance(result.exception, ConfigError)
    assert "--until 'yesterday' is none of: latest; TOPIC:PARTITION:OFFSET" in str(result.exception)


@pytest.mark.parametrize("dropped", [0, 3])
def test_the_summary_names_topics_records_and_offsets(dropped: int) -> None:
    report = BackfillReport(
        {"lines": 1234},
        dropped,
        {"word-counts": 56},
        {"app-counts-changelog": 7},
        {TopicPartition("lines", 1): 617},
        2,
        3.14,
    )
    text = io.StringIO()
    Console(file=text, width=100).print(backfill.summary(report))
    shown = text.getvalue()
    for expected in ("2 stages in 3.1 s", "1,234", "word-counts", "app-counts-changelog", "lines-1", "617"):
        assert expected in shown
    assert ("dropped" in shown) == bool(dropped)


def test_one_stage_is_not_called_stages() -> None:
    assert str(backfill.summary(BackfillReport({}, 0, {}, {}, {}, 1, 3.14)).title) == "Backfill: 1 stage in 3.1 s"


def test_in_a_pipe_each_step_is_a_line_and_each_ten_seconds_how_far_it_has_come() -> None:
    now, written = 100.0, list[str]()
    lines = Lines(written.append, lambda: now)
    for at, report in (
        (100.0, StepProgress("starting Spark")),
        (101.0, StepProgress("stage 1 of 1")),
        (105.0, StepProgress("stage 1 of 1", 1, 8)),
        (111.0, StepProgress("stage 1 of 1", 3, 8)),
        (112.0, StepProgress("stage 1 of 1", 4, 8)),
        (121.0, StepProgress("stage 1 of 1", 4000, 20000, RECORDS, 1600.4, 10.2)),
        (122.0, StepProgress("writing results")),
    ):
        now = at
        lines(report)
    assert written == [
        "starting Spark",
        "stage 1 of 1",
        "stage 1 of 1: 3 of 8 tasks of Spark",
        "stage 1 of 1: 4,000 of at most 20,000 records, 1,600 records/s, 0:00:10 left",
        "writing results",
    ]


def test_progress_goes_to_standard_error_so_that_a_pipe_has_the_result_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with shown_progress() as progress:
        progress(StepProgress("starting Spark"))
    assert capsys.readouterr() == ("", "starting Spark\n")


def test_on_a_terminal_a_bar_has_the_step_and_the_numbers() -> None:
    text = io.StringIO()
    console = Console(file=text, width=160, force_terminal=True)
    with shown_progress(console) as progress:
        progress(StepProgress("starting Spark"))
        progress(StepProgress("stage 1 of 2: sub-topology 0", 3, 8))
    shown = text.getvalue()
    assert "stage 1 of 2: sub-topology 0" in shown
    assert "3 of 8 tasks of Spark" in shown


def test_history_comes_from_kafka_an_archive_or_the_archive_and_then_kafka() -> None:
    assert backfill._sources(["kafka"]) == (None, True)
    assert backfill._sources(["s3://b/a"]) == ("s3://b/a", False)
    assert backfill._sources(["kafka", "s3://b/a"]) == ("s3://b/a", True)
    with pytest.raises(ConfigError, match="from one archive, not from a and b"):
        backfill._sources(["a", "b"])
