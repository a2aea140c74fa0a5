"""Input that cannot be ingested is refused before any work where it can be known, and nothing is done by half."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common.errors import ConfigError, StreamsError
from penstock.common.serdes import Serdes
from penstock.common.topics import NewTopic
from penstock.pipeline.ingest import reading
from penstock.pipeline.ingest.contracts import CsvForm, CsvType, FileFormat
from penstock.pipeline.ingest.files import find_source
from tests.pipeline.ingest.rig import TOPIC, Rig, write_json_lines, write_parquet

ROWS = [{"user": "ada", "n": 1}, {"user": "bob", "n": 2}]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, partitions=2)


def refused(rig: Rig, message: str, **options: Any) -> None:
    """Require that an ingest is refused before any work."""
    topics = rig.broker.topics()
    with pytest.raises(ConfigError, match=re.escape(message)):
        rig.ingest(**options)
    assert rig.records() == []
    assert rig.broker.topics() == topics


def incomplete(rig: Rig, *messages: str, **options: Any) -> None:
    """Require that an ingest fails with these messages."""
    with pytest.raises(StreamsError) as failed:
        rig.ingest(**options)
    for message in messages:
        assert message in str(failed.value)
    assert "Run it again" in str(failed.value)


# ---- before any work ----


@pytest.mark.parametrize("part", ["key_column", "timestamp_column", "partition_column", "value_columns", "headers"])
@pytest.mark.parametrize("form", FileFormat)
def test_a_column_that_does_not_exist_is_named_with_its_file(rig: Rig, part: str, form: FileFormat) -> None:
    write_json_lines(rig.folder / "rows.jsonl", ROWS)
    if form is FileFormat.PARQUET:
        (rig.folder / "rows.jsonl").unlink()
        write_parquet(rig.folder / "rows.parquet", ROWS)
    elif form is FileFormat.CSV:
        (rig.folder / "rows.jsonl").unlink()
        (rig.folder / "rows.csv").write_text("user,n\nada,1\n")
    column: Any = {"value_columns": ("usr", "n"), "headers": (("h", "usr"),)}.get(part, "usr")
    refused(rig, "has no column 'usr'; did you mean 'user'?", **{part: column})


def test_a_second_file_without_the_column_is_found_before_the_first_is_written(rig: Rig) -> None:
    write_parquet(rig.folder / "a.parquet", ROWS)
    write_parquet(rig.folder / "b.parquet", [{"name": "x"}])
    refused(rig, "'b.parquet' in ", key_column="user")


@pytest.mark.parametrize(
    ("serde", "value", "message"),
    [
        (Serdes.long(), 0.5, "column 'it' is of type double, and the serde long takes whole numbers and text"),
        (Serdes.double(), b"x", "column 'it' is of type binary, and the serde double takes numbers and text"),
        (Serdes.boolean(), 1, "column 'it' is of type int64, and the serde boolean takes booleans and text"),
        (Serdes.bytes(), 1, "column 'it' is of type int64, and the serde bytes takes bytes and text"),
        (Serdes.string(), b"x", "column 'it' is of type binary, which has no form in JSON: --value bytes"),
        (Serdes.json(), timedelta(1), "column 'it' is of type duration[us], which has no form in JSON"),
    ],
)
def test_a_column_of_a_type_that_the_serde_does_not_take_is_refused(
    rig: Rig, serde: Any, value: Any, message: str
) -> None:
    write_parquet(rig.folder / "rows.parquet", [{"it": value}])
    refused(rig, message, value_columns=("it",), value_serde=serde)


def test_bytes_have_no_place_in_an_object(rig: Rig) -> None:
    write_parquet(rig.folder / "rows.parquet", [{"user": "ada", "raw": b"\xff"}])
    refused(rig, "column 'raw' is of type binary, which has no form in JSON: name the columns of the value")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.parquet", b"no parquet at all", "'rows.parquet' in "),
        ("rows.parquet", b"", "an empty file is not parquet"),
        ("rows.csv", b"", "an empty file is not csv"),
        ("rows.csv", b"user,user\na,b\n", "its header has the column 'user' twice"),
        ("rows.data", b"x", "the name of 'rows.data' does not show its format"),
        ("_SUCCESS", b"", "there are no files in "),
    ],
)
def test_a_file_that_is_none_of_its_format_is_refused(rig: Rig, name: str, content: bytes, message: str) -> None:
    (rig.folder / name).write_bytes(content)
    refused(rig, message)


def test_files_of_two_formats_are_refused_and_one_format_can_be_given(rig: Rig) -> None:
    write_json_lines(rig.folder / "a.csv", ROWS)
    write_json_lines(rig.folder / "b.jsonl", ROWS)
    refused(rig, "'a.csv' and 'b.jsonl' are of different formats")
    assert rig.ingest(given=FileFormat.JSON_LINES).records == 4


def test_a_url_that_names_nothing_is_refused_and_no_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file or folder"):
        find_source(str(tmp_path / "none"), {})
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_is_made_absolute_because_executors_have_other_folders(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json_lines(rig.folder / "rows.jsonl", ROWS)
    monkeypatch.chdir(rig.folder)
    for url, names in ((".", ["rows.jsonl"]), ("rows.jsonl", ["rows.jsonl"])):
        source = find_source(url, {})
        assert source.location.url == str(rig.folder)
        assert [file.name for file in source.files] == names


def test_a_json_array_in_one_line_is_refused_before_any_work(rig: Rig) -> None:
    (rig.folder / "rows.jsonl").write_text(json.dumps([{"n": "x" * 1_000} for _ in range(2_000)]))
    refused(rig, "it is a JSON array; JSON Lines has one object on each line (jq -c '.[]'")


def test_a_type_for_a_column_that_the_csv_does_not_have_is_refused(rig: Rig) -> None:
    (rig.folder / "rows.csv").write_text("user,n\nada,1\n")
    refused(rig, "it has no column 'm'", form=CsvForm(types={"m": CsvType.LONG}))


# ---- between two runs ----


def test_other_settings_are_refused_with_what_was_and_is(rig: Rig) -> None:
    write_json_lines(rig.folder / "rows.jsonl", ROWS)
    rig.ingest(key_column="user")
    with pytest.raises(ConfigError, match=r"--key-column was user, and is n; .*--value-column was not set, and is n"):
        rig.ingest(key_column="n", value_columns=("n",))
    assert len(rig.records()) == 2


def test_a_file_that_has_changed_since_its_rows_were_written_is_refused(rig: Rig) -> None:
    write_json_lines(rig.folder / "rows.jsonl", ROWS)
    rig.ingest()
    write_json_lines(rig.folder / "rows.jsonl", [*ROWS, {"user": "eve", "n": 3}])
    with pytest.raises(
        ConfigError, match=r"'rows.jsonl': it has changed since 2 of its rows were written: it had .* bytes"
    ):
        rig.ingest()
    assert len(rig.records()) == 2


def test_a_change_that_keeps_the_size_is_found_by_the_hash(rig: Rig) -> None:
    write_json_lines(rig.folder / "rows.jsonl", ROWS)
    rig.ingest()
    touch(rig.folder / "rows.jsonl", (rig.folder / "rows.jsonl").read_text().replace("bob", "eve"))
    incomplete(rig, "'rows.jsonl': it has changed since 2 of its rows were written: its hash was ")
    assert len(rig.records()) == 2


def test_a_file_that_was_written_again_unchanged_is_done(rig: Rig) -> None:
    write_json_lines(rig.folder / "rows.jsonl", ROWS)
    rig.ingest()
    touch(rig.folder / "rows.jsonl", (rig.folder / "rows.jsonl").read_text())
    assert rig.ingest().records == 0
    assert len(rig.records()) == 2


def touch(file: Path, content: str) -> None:
    """Write a file at a later time than before, whatever the clock of the file system."""
    import os

    later = file.stat().st_mtime + 10
    file.write_text(content)
    os.utime(file, (later, later))


def test_a_topic_that_was_created_again_is_not_taken_for_the_former_one(rig: Rig) -> None:
    write_json_lines(rig.folder / "rows.jsonl", ROWS)
    rig.ingest()
    rig.broker.delete_topic(TOPIC)
    rig.broker.create_topic(NewTopic(TOPIC, 2))
    refused(rig, "topic 'views' was deleted and created again since 2 rows were written to it: give another --id")
    rig.ingest(id_="again")
    assert len(rig.records()) == 2


def test_a_file_that_is_gone_before_it_was_done_is_named(rig: Rig) -> None:
    write_json_lines(rig.folder / "a.jsonl", [{"n": 1}, "broken"])
    incomplete(rig, "'a.jsonl': row 2: it is not JSON")
    (rig.folder / "a.jsonl").unlink()
    write_json_lines(rig.folder / "b.jsonl", [{"n": 2}])
    incomplete(rig, "'a.jsonl' is gone before all of its rows were written (1 are): put it back")
    assert len(rig.records()) == 2
    incomplete(rig, "'a.jsonl' is gone")


def test_a_file_that_is_done_may_be_deleted_and_the_same_name_is_not_ingested_again(rig: Rig) -> None:
    write_json_lines(rig.folder / "a.jsonl", ROWS)
    rig.ingest()
    (rig.folder / "a.jsonl").unlink()
    write_json_lines(rig.folder / "b.jsonl", ROWS)
    assert rig.ingest().records == 2


# ---- rows that are no records ----

BAD_ROWS: list[tuple[FileFormat, str, str]] = [
    (FileFormat.JSON_LINES, '{"user": "ada", "n": 1}\n{"user"\n{"user": "eve", "n": 3}\n', "row 2: it is not JSON"),
    (FileFormat.JSON_LINES, '{"user": "ada", "n": 1}\n[1]\n{"user": "eve", "n": 3}\n', "row 2: it is a list"),
    (
        FileFormat.JSON_LINES,
        '{"user": "ada", "n": 1}\n{"n": 2}\n{"user": "eve", "n": 3}\n',
        "row 2: it has no field 'user'",
    ),
    (
        FileFormat.JSON_LINES,
        '{"user": "a", "n": 1}\n{"user": "b", "n": "x"}\n{"user": "e", "n": 3}\n',
        "row 2: its value 'x'",
    ),
    (FileFormat.CSV, "user,n\nada,1\nbob\neve,3\n", "row 2: it has 1 fields instead of 2"),
    (FileFormat.CSV, "user,n\nada,1\nbob,x\neve,3\n", "row 2: 'x' in column 'n' is not int64"),
    (FileFormat.CSV, "user,n\nada,1\n\udcff,2\neve,3\n", "row 2: b'\\xff' in column 'user' is not UTF-8"),
]


@pytest.mark.parametrize(("form", "content", "message"), BAD_ROWS)
def test_a_bad_row_ends_its_file_behind_the_rows_before_it_and_skip_leaves_it_out(
    rig: Rig, form: FileFormat, content: str, message: str
) -> None:
    (rig.folder / f"rows.{form}").write_bytes(content.encode(errors="surrogateescape"))
    write_json_lines(rig.folder / "others.data", [])  # another file
    options: dict[str, Any] = {
        "key_column": "user", "value_columns": ("n",), "value_serde": Serdes.long(),
        "form": CsvForm(types={"n": CsvType.LONG}), "given": form,
    }  # fmt: skip
    (rig.folder / "others.data").unlink()
    incomplete(rig, f"'rows.{form}': {message}", "--on-error skip", **options)
    assert len(rig.records()) == 1
    incomplete(rig, message, **options)
    assert len(rig.records()) == 1
    report = rig.ingest(**options, skips=True)
    assert (report.records, report.skipped, len(rig.records())) == (1, 1, 2)
    (text,) = report.refused
    assert text.startswith(f"'rows.{form}', {message}")
    assert rig.ingest(**options).records == 0


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_rows_of_csv_keep_their_numbers_around_broken_ones(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(reading, "AT_ONCE", at_once)
    (rig.folder / "rows.csv").write_text("a,b\nbad\n1,1\nbad,bad,bad\nbad\n2,2\n3,3\nbad\n")
    report = rig.ingest(skips=True)
    assert [text.split(":")[0].split(", ")[1] for text in report.refused] == ["row 1", "row 3", "row 4", "row 7"]
    assert sorted(value["a"] for value in rig.values()) == ["1", "2", "3"]


@pytest.mark.parametrize("rest", ['2,"oops\n', '"2,oops\n'])
@pytest.mark.parametrize("column", ["a", "b"])
def test_a_quote_that_is_never_closed_does_not_hide_the_rows_behind_it(rig: Rig, rest: str, column: str) -> None:
    (rig.folder / "rows.csv").write_text(f"a,b\n1,x\n{rest}3,y\n4,z\n")
    with pytest.raises(StreamsError, match=r"row 2: a quote in it is never closed, so the rest of the file belongs"):
        rig.ingest(value_columns=[column])


def test_rows_with_closed_quotes_and_with_quotes_within_a_field_are_taken(rig: Rig) -> None:
    (rig.folder / "rows.csv").write_text('a,b\n1,x\n2,oops\n3,5" pipe\n4,"z\nz"')
    rig.ingest()
    assert len(rig.values()) == 4


@pytest.mark.parametrize(
    ("mapping", "row", "message"),
    [
        ({"timestamp_column": "it"}, None, "column 'it' has no timestamp: it is null"),
        ({"timestamp_column": "it"}, -1, "column 'it' has no timestamp: -1 is before 1970"),
        ({"timestamp_column": "it"}, "soon", "column 'it' has no timestamp: Invalid isoformat string: 'soon'"),
        ({"timestamp_column": "it"}, [1], "column 'it' has no timestamp: [1] is neither"),
        ({"partition_column": "it"}, 2, "topic 'views' has partitions 0 to 1, not 2"),
        ({"partition_column": "it"}, "x", "topic 'views' has partitions 0 to 1, not 'x'"),
        ({"key_column": "it", "key_serde": Serdes.long()}, True, "its key True cannot be encoded: a whole number"),
        ({"key_column": "it", "key_serde": Serdes.integer()}, 2**40, "its key 1099511627776 cannot be encoded"),
        ({"key_column": "it", "key_serde": Serdes.uuid()}, "x", "its key 'x' cannot be encoded"),
        ({"partitioner": lambda *_: 1 / 0}, 1, "the partitioner raised ZeroDivisionError"),
        ({"partitioner": lambda *_: 7}, 1, "topic 'views' has partitions 0 to 1, not 7"),
    ],
)
def test_a_row_that_is_no_record_says_why(rig: Rig, mapping: dict[str, Any], row: Any, message: str) -> None:
    write_json_lines(rig.folder / "rows.jsonl", [{"it": row}])
    incomplete(rig, f"'rows.jsonl': row 1: {message}", **mapping)
    assert rig.records() == []


def test_empty_lines_make_no_records_and_null_keys_are_counted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AT_ONCE", 2)
    rows = ['{"user": "a"}', "", '{"user": null}', "broken", '{"user": null}', '{"user": "b"}', ""]
    write_json_lines(rig.folder / "rows.jsonl", rows)
    incomplete(rig, "row 4", "In this run it wrote 2 records", key_column="user")
    report = rig.ingest(skips=True, key_column="user")
    assert (report.records, report.null_keys, report.skipped) == (2, 1, 1)
    assert [record.key for record in rig.records()].count(None) == 2


def test_nan_has_no_form_in_json(rig: Rig) -> None:
    write_parquet(rig.folder / "rows.parquet", [{"x": float("nan")}, {"x": 1.0}])
    incomplete(rig, "row 1: its value {'x': nan} cannot be encoded")
    assert rig.ingest(skips=True).records == 1


def test_a_record_that_is_too_large_for_the_topic_is_a_bad_row(rig: Rig) -> None:
    rows = [{"n": 1, "text": "x"}, {"n": 2, "text": "x" * 2_000_000}, {"n": 3, "text": "x"}]
    write_json_lines(rig.folder / "rows.jsonl", rows)
    incomplete(rig, "row 2: the record is too large")
    report = rig.ingest(skips=True)
    assert (report.records, report.skipped) == (1, 1)
    assert sorted(value["n"] for value in rig.values()) == [1, 3]


def test_one_bad_file_does_not_stop_the_others(rig: Rig) -> None:
    for number in range(5):
        write_json_lines(rig.folder / f"{number}.jsonl", ["broken"] if number == 2 else ROWS)
    incomplete(rig, "'2.jsonl': row 1", "In this run it wrote 8 records")
    assert len(rig.records()) == 8


def test_a_parquet_file_that_is_damaged_in_the_middle_ends_with_a_message(rig: Rig) -> None:
    file = rig.folder / "rows.parquet"
    write_parquet(file, [{"text": f"{number:020}" * 20} for number in range(3_000)], groups=500)
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2_000] = bytes(2_000)
    file.write_bytes(content)
    with pytest.raises(StreamsError, match=r"'rows.parquet': "):
        rig.ingest()


def test_storage_that_goes_away_in_the_middle_ends_the_run_and_the_next_one_continues(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.common.errors import ObjectStoreError
    from penstock.objects import storage

    for number in range(4):
        write_json_lines(rig.folder / f"{number}.jsonl", ROWS)
    original, given = storage._ObstoreObjects.download, 0

    def download(self: Any, name: str, file: Path) -> None:
        nonlocal given
        given += 1
        if given > 2:
            raise ObjectStoreError(f"cannot read {name!r}: the storage is gone")
        original(self, name, file)

    with monkeypatch.context() as patched:
        patched.setattr(storage._ObstoreObjects, "download", download)
        incomplete(rig, "the storage is gone", "In this run it wrote 4 records")
    assert rig.ingest().records == 4
    assert len(rig.records()) == 8


def test_the_columns_of_a_wide_schema_are_listed(rig: Rig) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    write_parquet(rig.folder / "rows.parquet", [{"a": 1, "b": 2}], schema)
    refused(rig, "it has no column 'zzz'; its columns are a, b", key_column="zzz")
