"""``penstock topic read`` with the serdes of an application, conditions and an end, against a real broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.common.errors import ConfigError
from tests.cli.test_topic import Commands
from tests.cli.test_topic import topic as topic

PROGRAM = """
import penstock as ps

TEXT = ps.Serdes.string()
builder = ps.StreamsBuilder()
builder.stream({lines!r}, ps.Consumed.with_(TEXT, ps.Serdes.json())).to("out")
counts = builder.stream({other!r}, ps.Consumed.with_(TEXT, TEXT)).group_by_key().count(ps.Materialized.as_("counts"))
app = ps.KafkaStreams(builder.build(), {{
    "application.id": "reader", "bootstrap.servers": {broker!r}, "default.key.serde": TEXT, "default.value.serde": TEXT,
}})
"""


@pytest.fixture
def program(broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], str]]:
    """Writes an application that reads two topics; returns its MODULE:APP."""
    name = "program_that_is_read"

    def write(lines: str, other: str) -> str:
        (tmp_path / f"{name}.py").write_text(PROGRAM.format(lines=lines, other=other, broker=broker))
        return f"{name}:app"

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield write
    sys.modules.pop(name, None)


def test_records_are_filtered_and_decoded_by_the_serdes_of_an_application(
    topic: Commands, topic_name: Callable[[str], str], program: Callable[[str, str], str]
) -> None:
    lines, other = topic_name("lines"), topic_name("other")
    topic("create", lines, other, "-p", "1")
    sent = [{"total": n, "who": f"w{n}"} for n in range(20)]
    rows = [{"key": f"k{row['total']}", "value": row, "timestamp": 1000 + int(str(row["total"]))} for row in sent]
    topic("send", lines, "--value", "json", "--json", text="\n".join(map(json.dumps, rows)))
    app_option = ("--app", program(lines, other))
    # The address of the application's Kafka, and not the default one.
    read = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["topic", "read", lines, *app_option, "--limit", "1"])
    assert (read.exit_code, read.stdout) == (0, '{"total":0,"who":"w0"}\n'), read.output
    kept = topic.lines(lines, *app_option, "--where", "value.total > 16 and key != 'k18'")
    assert [json.loads(line)["total"] for line in kept] == [17, 19]
    last = topic.lines(lines, *app_option, "--where", "matches(value.who, '1')", "--limit", "2", "--from", "5")
    assert [json.loads(line)["total"] for line in last] == [10, 11]
    with pytest.raises(ConfigError, match="neither reads nor writes topic"):
        topic("read", topic_name("third"), *app_option)
    with pytest.raises(ConfigError, match="column 1: unknown name 'total'"):
        topic("read", lines, "--where", "total > 3")


def test_reading_ends_at_an_offset_or_a_time(topic: Commands, topic_name: Callable[[str], str]) -> None:
    lines = topic_name("lines")
    topic("create", lines)
    rows = [{"value": str(n), "timestamp": 1_795_253_400_000 + n} for n in range(10)]
    topic("send", lines, "--json", text="\n".join(map(json.dumps, rows)))
    assert topic.lines(lines, "--to", "3") == ["0", "1", "2"]
    assert topic.lines(lines, "--from", "4", "--to", "-4") == ["4", "5"]
    assert topic.lines(lines, "--to", "0") == []
    assert topic.lines(lines, "--from", "5", "--to", "3") == []
    assert topic.lines(lines, "--to", "2026-11-21T09:30:00.004Z")[-1:] == ["3"]
    assert topic.lines(lines, "--from", "8", "--to", "100") == ["8", "9"]
    with pytest.raises(ConfigError, match="--follow has no end"):
        topic("read", lines, "--follow", "--to", "3")
    with pytest.raises(ConfigError, match="--to 'soon': neither"):
        topic("read", lines, "--to", "soon")


def test_comparisons_that_have_no_answer_are_reported(topic: Commands, topic_name: Callable[[str], str]) -> None:
    lines = topic_name("lines")
    topic("create", lines)
    topic("send", lines, text="1\n2\n")
    done = CliRunner(env={"PENSTOCK_BOOTSTRAP_SERVERS": topic.broker}).invoke(
        app, ["topic", "read", lines, "--where", "value > 1"]
    )
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "--where value > 1: 2 times it could not compare text with a number: taken as not true\n"
