"""The options of ``penstock ingest``: each that is wrong is one clear sentence, before Kafka is asked."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import ingest as cli_ingest
from penstock.cli import ingest_options
from penstock.cli.client_options import command_settings
from penstock.cli.ingest import ProgressLine, summary
from penstock.cli.main import app
from penstock.cli.topic_options import serde_of
from penstock.common.errors import ConfigError
from penstock.common.serdes import Serdes, bound
from penstock.pipeline.ingest import ingest as ingest_module
from penstock.pipeline.ingest.contracts import CsvForm
from penstock.pipeline.ingest.files import find_source
from penstock.pipeline.ingest.ingest import Ingest, IngestReport
from penstock.pipeline.ingest.mapping import RecordMapping
from penstock.pipeline.ingest.progress import FileProgress, Progress
from tests.pipeline.ingest.rig import TOPIC, Rig, write_json_lines


def refused(*arguments: str) -> str:
    """Returns the error of ``penstock ingest . --topic t`` with these arguments."""
    done = CliRunner().invoke(app, ["ingest", *arguments])
    assert isinstance(done.exception, ConfigError)
    return str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on-error", "ignore"], "--on-error 'ignore': it is fail or skip"),
        (["--format", "avro"], "--format 'avro' is none of parquet, csv, jsonl, iceberg"),
    ],
)
def test_an_option_that_cannot_be_is_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert refused(str(tmp_path), "-t", "t", *arguments) == message


def test_a_serde_is_a_name_or_one_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_serdes_of_ingest.py").write_text(
        "import penstock\nown, other = penstock.Serde('own', str.encode, bytes.decode), 7\n"
        "text = penstock.Serdes.avro(str)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert serde_of("--key", "long") is Serdes.long()
    assert serde_of("--key", "own_serdes_of_ingest:own").name == "own"
    settings = {"schema.registry.url": "mock://ingest"}
    assert bound(serde_of("--key", "own_serdes_of_ingest:text", settings), "t", "key").serialize("a")[0] == 0
    for text, message in {
        "avro": "--key 'avro' is none of string, .* and no MODULE:SERDE",
        "own_serdes_of_ingest:other": "--key own_serdes_of_ingest:other is a int, not a penstock.Serde",
        "own_serdes_of_ingest:none": "--key own_serdes_of_ingest:none: module 'own_serdes_of_ingest' has no 'none'",
        "no_such_module_at_all:x": "--key no_such_module_at_all:x: there is no module 'no_such_module_at_all'",
        ":x": "--key ':x' is not MODULE:NAME",
    }.items():
        with pytest.raises(ConfigError, match=message):
            serde_of("--key", text)


@pytest.mark.parametrize(
    ("delimiter", "types", "message"),
    [
        (";;", [], "--csv-delimiter ';;' is not one character"),
        (";", ["n"], "--column-type 'n' is not COLUMN=TYPE"),
        (";", ["n=int"], "--column-type 'n=int': the types are text, long, double, boolean"),
    ],
)
def test_a_form_of_csv_that_cannot_be_is_refused(delimiter: str, types: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ingest_options.csv_form(delimiter, types)


def test_settings_of_object_storage_and_of_a_schema_registry_come_from_the_file_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "settings"
    registry = "schema.registry.url=mock://ingest\nbasic.auth.user.info=ada:secret\nauto.register.schemas=false\n"
    file.write_text(f"sasl.username=ada\nobject.store.aws_endpoint=http://127.0.0.1:9\n{registry}")
    settings = command_settings(file)
    assert settings.kafka == {"sasl.username": "ada"}
    assert settings.schema_registry["auto.register.schemas"] == "false"
    assert "secret" not in repr(settings)
    assert settings.object_store == {"aws_endpoint": "http://127.0.0.1:9"}
    file.write_text("aws_endpoint=http://127.0.0.1:9\n")
    with pytest.raises(ConfigError, match=r"'aws_endpoint' is not of security.*object\.store"):
        command_settings(file)


def test_the_summary_counts_records_null_keys_skipped_rows_and_files_of_earlier_runs() -> None:
    report = IngestReport(1_000, 0, 1, (), 1, 3, 2.0)
    assert (
        summary("t", report)
        == "1,000 records of 1 file written to t in 2.0 s, 500 a second, 1 row skipped (2 files already there)"
    )
    assert summary("t", IngestReport(0, 0, 0, (), 0, 3, 0.1)) == "Nothing to do: 3 files already in topic t"
    assert summary("t", IngestReport(1_000, 12, 0, (), 1, 1, 2.0)).endswith("500 a second, 12 with a null key")


def test_a_run_reports_that_spark_starts_unless_there_is_nothing_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_module, "Watch", lambda *_: nullcontext())
    rig = Rig(tmp_path)
    write_json_lines(rig.folder / "rows.jsonl", [{"n": 1}])
    ingest = Ingest("load", find_source(str(rig.folder), {}), RecordMapping(TOPIC, 4), CsvForm(), rig.clients)
    cli_ingest._run(ingest, rig.lanes())
    shown = capsys.readouterr()
    assert shown.err == "starting Spark\n"
    assert shown.out.startswith("1 record of 1 file written to views in ")
    cli_ingest._run(ingest, rig.lanes())
    assert capsys.readouterr() == ("Nothing to do: 1 file already in topic views\n", "")


def test_the_progress_has_the_speed_since_the_run_began() -> None:
    now = [0.0]
    line = ProgressLine(2, lambda: now[0])
    progress = Progress(None, {"a": FileProgress(0, 9, 1, "x", 500, 0, True), "b": FileProgress(0, 9, 1)})
    assert line.text(progress) == "500 rows, 1 of 2 files done"
    now[0] = 2.0
    progress.files["b"] = FileProgress(0, 9, 1, "x", 100)
    assert line.text(progress) == "600 rows, 1 of 2 files done, 50 a second"
