"""``penstock backfill`` on the command line."""

from __future__ import annotations

import io

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from penstock.cli import backfill
from penstock.common.errors import ConfigError
from penstock.common.ids import TopicPartition
from penstock.pipeline.backfill import BackfillReport


def test_any_end_of_history_but_latest_is_refused_before_anything_starts() -> None:
    app = typer.Typer()
    backfill.register(app)
    result = CliRunner().invoke(app, ["nowhere:app", "--until", "yesterday"])
    assert isinstance(result.exception, ConfigError)
    assert "only 'latest' is known" in str(result.exception)


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
