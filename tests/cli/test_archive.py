"""``penstock archive`` on the command line."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from penstock.cli import archive as archive_command
from penstock.cli.archive import batch_line
from penstock.cli.iceberg_options import catalog_of
from penstock.cli.main import app
from penstock.common.errors import ArchiveError, ConfigError
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.batches import Batch
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.iceberg_publisher import IcebergPublisher
from penstock.pipeline.archive.opening import ArchiveTask
from penstock.pipeline.archive.topic_log import TopicLog
from tests.pipeline.archive.making import begun, span, written
from tests.pipeline.archive.without_spark import TOPICS, Cluster, Location


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["archive", *arguments], env={"COLUMNS": "200"})


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive with two partitions, of which one has lost records."""
    objects = ObjectLocation(str(tmp_path / "archive")).open()
    log = begun(objects)
    log.commit("run-1", 2_000, [span(0, 1_200)], [written(objects, 0, 1_200, (7, 8))])
    log.open_run("run-2", 3_000, "host:2", lambda _: [span(1_200, 1_300)])
    log.commit("run-2", 4_000, [span(0, 10, 1)], [written(objects, 0, 10, partition=1)])
    return tmp_path / "archive"


def test_the_list_shows_offsets_records_and_what_is_missing(archive: Path) -> None:
    found = run("list", str(archive))
    assert found.exit_code == 0, found.output
    lines = [line.split() for line in found.stdout.splitlines() if line.split()[:1] == ["lines"]]
    assert lines[0][:8] == ["lines", "1", "0", "0", "to", "1,299", "1,198", "102"]
    assert lines[1][:7] == ["lines", "1", "1", "0", "to", "9", "10"]
    rows = json.loads(run("list", str(archive), "--json").output)
    assert rows[0]["lost"] == [[1_200, 1_300]]
    assert (rows[0]["first_timestamp"], rows[0]["topic_id"]) == (1_000_000, "id-1")


def test_verify_finds_a_damaged_file_and_its_exit_code_says_so(archive: Path) -> None:
    whole = run("verify", str(archive))
    assert whole.exit_code == 0, whole.output
    assert "lines-0: in order: 1,198 records" in whole.output
    assert "100 offsets missing: retention" in whole.output
    file = next((archive / "lines/1").glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    damaged = run("verify", str(archive))
    assert damaged.exit_code == 1
    assert f"file lines/1/{file.name} of the archive file://{archive} is damaged" in damaged.output
    reports = json.loads(run("verify", str(archive), "--json").output)
    assert [bool(report["problems"]) for report in reports] == [False, True]


def test_compact_merges_small_files(archive: Path) -> None:
    objects = ObjectLocation(str(archive)).open()
    log = begun(objects, topic="others")
    for begin in (0, 10):
        log.commit("run-1", 2_000, [span(begin, begin + 10)], [written(objects, begin, begin + 10, topic="others")])
    assert run("compact", str(archive), "--topic", "others").output == "others: 2 files became 1\n"
    assert run("compact", str(archive)).output == ""


def test_the_first_argument_is_a_topic_unless_it_is_a_command(tmp_path: Path) -> None:
    refused = run("lines", "--to", str(tmp_path), "--every", "0")
    assert isinstance(refused.exception, ConfigError)
    assert str(refused.exception) == "--every 0.0: give a number of seconds above 0"
    refused = run("--to", str(tmp_path), "--every", "0", "list")
    assert "--every" in str(refused.exception)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("avro", "--decode 'avro' is none of string, .* and no MODULE:SERDE"),
        ("nowhere:serde", "--decode nowhere:serde: there is no module 'nowhere'"),
        ("json:dumps", "--decode json:dumps is a function, not a penstock.Serde"),
    ],
)
def test_a_serde_that_cannot_be_used_is_named(tmp_path: Path, given: str, message: str) -> None:
    refused: Result = run("lines", "--to", str(tmp_path), "--decode", given)
    with pytest.raises(ConfigError, match=message):
        raise refused.exception or AssertionError


def test_a_place_without_an_archive_and_an_unknown_topic_are_named(archive: Path, tmp_path: Path) -> None:
    for command in ("list", "verify", "compact"):
        missing = run(command, str(tmp_path / "nowhere"))
        assert isinstance(missing.exception, ArchiveError)
        assert "there is no archive at file://" in str(missing.exception)
    assert not (tmp_path / "nowhere").exists(), "a mistyped path is not made"
    unknown = run("verify", str(archive), "-t", "other")
    assert str(unknown.exception) == "--topic other: the archive has only lines"


def test_an_archive_with_a_table_shows_it_and_verify_compares_it(archive: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings"
    settings.write_text(f"iceberg.type=sql\niceberg.uri=sqlite:///{tmp_path}/catalog.db\n")
    compared = ("verify", str(archive), "--catalog", "here.kafka", "--command-config", str(settings))
    objects = ObjectLocation(str(archive)).open()
    log = TopicLog(objects, Archive(objects).generations("lines")[0])
    IcebergPublisher(objects, catalog_of("here", settings), "kafka").publish(log.archived)
    assert json.loads(run("list", str(archive), "--json").output)[0]["iceberg"] == "here.kafka.lines"
    assert run(*compared).exit_code == 0
    log.commit("run-2", 5_000, [span(10, 20, 1)], [written(objects, 10, 20, partition=1)])
    behind = run(*compared)
    assert behind.exit_code == 1
    assert "table kafka.lines lacks 1 files" in behind.output
    without = run("verify", str(archive), "--catalog", "here")
    assert str(without.exception).startswith("'here' is not NAME.NAMESPACE")


def test_a_run_reports_that_spark_starts_and_that_there_was_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    task = ArchiveTask(TOPICS, Location("memory://", objects=cluster.objects), cluster.clients)
    without_spark: Any = nullcontext()
    archive_command._run(task, cluster.objects, without_spark)
    assert capsys.readouterr() == (
        "", "starting Spark\nNothing to archive: memory:// has all records of lines, others\n"
    )  # fmt: skip


def test_a_commit_is_one_line() -> None:
    assert batch_line(Batch(1_200, 2_500_000, 2, 0, 0.5)) == (
        "1,200 records archived in 2 files of 2.5 MB, 2,400 a second"
    )
    assert batch_line(Batch(1, 100, 1, 3, 0.5)).endswith(", 3 keys or values not decoded")


@pytest.mark.parametrize(("written", "meant"), [("verfy", "verify"), ("lst", "list"), ("Compact", "compact")])
def test_a_command_that_is_mistyped_is_not_taken_for_a_topic(written: str, meant: str) -> None:
    done = CliRunner().invoke(app, ["archive", written, "s3://bucket/x"])
    assert done.exit_code == 2
    assert f"did you mean 'penstock archive {meant}'" in " ".join(done.stderr.replace("│", " ").split())


def test_a_topic_that_resembles_a_command_is_archived_if_there_is_a_place_for_it() -> None:
    for place in (["--to", "hdfs://x"], ["--to=hdfs://x"]):
        done = CliRunner().invoke(app, ["archive", "verfy", *place, "--once"])
        assert "did you mean" not in done.output
        assert done.exit_code == 1
