"""The columns of each format become keys, values, headers, timestamps and partitions."""

from __future__ import annotations

import json
import struct
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common.errors import StreamsError
from penstock.common.murmur2 import partition_for
from penstock.common.serdes import Serde, Serdes
from penstock.pipeline.ingest.contracts import CsvForm, CsvType, FileFormat
from tests.pipeline.ingest.rig import TOPIC, Rig, write_json_lines, write_parquet

ROWS: list[dict[str, Any]] = [
    {"user": "ada", "page": "/a", "seconds": 3},
    {"user": "bob", "page": "/b", "seconds": None},
    {"user": "ada", "page": "ü", "seconds": 5},
]


def write(rig: Rig, form: FileFormat) -> None:
    """Write ``ROWS``."""
    if form is FileFormat.PARQUET:
        write_parquet(rig.folder / "rows.parquet", ROWS, groups=2)
    elif form is FileFormat.JSON_LINES:
        write_json_lines(rig.folder / "rows.jsonl", ROWS)
    else:
        (rig.folder / "rows.csv").write_text("user,page,seconds\nada,/a,3\nbob,/b,\nada,ü,5\n")


@pytest.mark.parametrize("form", FileFormat)
def test_each_format_gives_the_same_records(tmp_path: Path, form: FileFormat) -> None:
    rig = Rig(tmp_path)
    write(rig, form)
    report = rig.ingest(key_column="user", form=CsvForm(types={"seconds": CsvType.LONG}))
    assert (report.records, report.skipped, report.files) == (3, 0, 1)
    assert sorted((record.key or b"", json.loads(record.value or b"")["page"]) for record in rig.records()) == [
        (b"ada", "/a"),
        (b"ada", "ü"),
        (b"bob", "/b"),
    ]
    assert [value for value in rig.values() if value["user"] == "ada"] == [ROWS[0], ROWS[2]]
    assert ROWS[1] in rig.values()


@pytest.mark.parametrize("form", FileFormat)
def test_a_record_is_where_murmur2_of_its_key_puts_it(tmp_path: Path, form: FileFormat) -> None:
    rig = Rig(tmp_path)
    write(rig, form)
    rig.ingest(key_column="user", value_columns=("page",), value_serde=Serdes.string())
    for partition in range(rig.partitions):
        keys = {record.key for record in rig.partition(partition)}
        assert keys == {key for key in (b"ada", b"bob") if partition_for(key, rig.partitions) == partition}


def test_several_value_columns_make_an_object_and_one_is_the_value_itself(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=1)
    write_json_lines(rig.folder / "rows.jsonl", ROWS)
    rig.ingest(value_columns=("seconds", "page"))
    assert rig.records()[0].value == b'{"seconds":3,"page":"/a"}'
    rig.ingest(id_="second", value_columns=("seconds",), value_serde=Serdes.long())
    assert [record.value for record in rig.records()][3:] == [struct.pack(">q", 3), None, struct.pack(">q", 5)]


PLAIN = {
    "text": "ü",
    "whole": 2**40,
    "fraction": 0.5,
    "flag": True,
    "nothing": None,
    "day": date(2026, 2, 3),
    "clock": time(4, 5, 6),
    "at": datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
    "local": datetime(2026, 1, 2, 3, 4, 5),  # without a zone
    "price": Decimal("12.50"),
    "items": [{"at": datetime(2026, 1, 1, tzinfo=UTC), "n": 1}, None],
    "inner": {"price": Decimal("0.10"), "n": None},
}


def test_all_columns_are_plain_json(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    write_parquet(rig.folder / "rows.parquet", [PLAIN])
    rig.ingest()
    assert rig.values() == [
        {
            **PLAIN,
            "day": "2026-02-03",
            "clock": "04:05:06",
            "at": "2026-01-02T03:04:05.678000+00:00",
            "local": "2026-01-02T03:04:05",
            "price": "12.50",
            "items": [{"at": "2026-01-01T00:00:00+00:00", "n": 1}, None],
            "inner": {"price": "0.10", "n": None},
        }
    ]


def test_maps_dictionaries_and_ns_of_parquet_are_read(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    table = pa.table(
        {
            "tags": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
            "kind": pa.array(["x"]).dictionary_encode(),
            "at": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC")),
        }
    )
    pa.parquet.write_table(table, rig.folder / "rows.parquet")
    rig.ingest(key_column="kind", timestamp_column="at")
    (record,) = rig.records()
    assert (record.key, record.timestamp) == (b"x", 1_700_000_000_123)
    assert rig.values() == [{"tags": {"a": 1}, "kind": "x", "at": "2023-11-14T22:13:20.123456+00:00"}]


@dataclass
class Order:
    """A type of values."""

    id: int
    note: str


IDENTITY = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("serde", "given", "expected"),
    [
        (Serdes.string(), "a", b"a"),
        (Serdes.string(), 7, b"7"),
        (Serdes.string(), True, b"true"),
        (Serdes.bytes(), b"\xff", b"\xff"),
        (Serdes.bytes(), "ü", "ü".encode()),
        (Serdes.long(), 7, struct.pack(">q", 7)),
        (Serdes.long(), "7", struct.pack(">q", 7)),
        (Serdes.integer(), 7, struct.pack(">i", 7)),
        (Serdes.short(), 7, struct.pack(">h", 7)),
        (Serdes.double(), 0.5, struct.pack(">d", 0.5)),
        (Serdes.float(), 1, struct.pack(">f", 1)),
        (Serdes.boolean(), True, b"\x01"),
        (Serdes.uuid(), str(IDENTITY), str(IDENTITY).encode()),
        (Serdes.json(), [1, 2], b"[1,2]"),
        (Serdes.json(), '{"a":1}', b'"{\\"a\\":1}"'),
        (Serdes.json(Order), {"id": 3, "note": "x"}, b'{"id":3,"note":"x"}'),
    ],
)
def test_each_serde_takes_the_columns_that_fit_it(
    tmp_path: Path, serde: Serde[Any], given: Any, expected: bytes
) -> None:
    rig = Rig(tmp_path)
    write_parquet(rig.folder / "rows.parquet", [{"it": given}, {"it": None}])
    rig.ingest(value_columns=("it",), value_serde=serde)
    assert [record.value for record in rig.records()] == [expected, None]


def test_a_serde_of_a_type_takes_an_object_of_all_columns(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    (rig.folder / "orders.csv").write_text("id,note\n3,hello\n")
    rig.ingest(value_serde=Serdes.json(Order), form=CsvForm(types={"id": CsvType.LONG}))
    assert rig.values() == [{"id": 3, "note": "hello"}]


class Bound(Serde[Any]):
    """A serde whose bytes hold topic and part."""

    def bind(self, topic: str, part: Any) -> Serde[Any]:
        """Return one for the topic."""
        return Serde("bound", lambda value: f"{topic}/{part}/{value}".encode(), bytes.decode)


def test_a_serde_is_bound_to_the_topic(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    write_json_lines(rig.folder / "rows.jsonl", [{"it": "x"}])
    serde = Bound("bound", lambda _: b"", bytes.decode)
    rig.ingest(key_column="it", key_serde=serde, value_columns=("it",), value_serde=serde)
    (record,) = rig.records()
    assert (record.key, record.value) == (f"{TOPIC}/key/x".encode(), f"{TOPIC}/value/x".encode())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (1_700_000_000_123, 1_700_000_000_123),
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14T23:13:20.123+01:00", 1_700_000_000_123),
        ("2023-11-14 22:13:20", 1_700_000_000_000),
        (datetime(2023, 11, 14, 22, 13, 20, 123_999, tzinfo=UTC), 1_700_000_000_123),
        (datetime(2023, 11, 14, 22, 13, 20), 1_700_000_000_000),  # without a zone
        (date(2023, 11, 14), 1_699_920_000_000),
    ],
)
def test_timestamps_are_ms_times_dates_and_text_in_utc(tmp_path: Path, given: Any, expected: int) -> None:
    rig = Rig(tmp_path)
    write_parquet(rig.folder / "rows.parquet", [{"at": given}])
    rig.ingest(timestamp_column="at", value_columns=("at",), value_serde=Serdes.string())
    assert [record.timestamp for record in rig.records()] == [expected]


def test_headers_are_text_or_bytes_and_a_null_is_no_header(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=1)
    rows: list[dict[str, object]] = [
        {"a": "ü", "b": b"\xff", "c": 7, "v": 1},
        {"a": None, "b": None, "c": None, "v": 2},
    ]
    write_parquet(rig.folder / "rows.parquet", rows)
    rig.ingest(headers=(("trace", "a"), ("raw", "b"), ("n", "c")), value_columns=("v",))
    first, second = rig.records()
    assert first.headers == [("trace", "ü".encode()), ("raw", b"\xff"), ("n", b"7")]
    assert not second.headers


def test_a_partition_column_chooses_the_partition_and_a_null_leaves_it_to_murmur2(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    default = partition_for(b"ada", 4)
    other = (default + 1) % 4
    write_json_lines(rig.folder / "rows.jsonl", [{"k": "ada", "p": other}, {"k": "ada", "p": None}])
    rig.ingest(key_column="k", partition_column="p")
    assert (len(rig.partition(other)), len(rig.partition(default))) == (1, 1)


def test_a_partitioner_sees_key_and_value_as_objects(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    default = partition_for(b"ada", 4)
    other = (default + 1) % 4
    rows = [{"k": "ada", "n": 1}, {"k": "ada", "n": 2}]
    write_json_lines(rig.folder / "rows.jsonl", rows)
    seen: list[tuple[Any, ...]] = []

    def choose(topic: str, key: Any, value: Any, partitions: int) -> int | None:
        seen.append((topic, key, value, partitions))
        return None if value["n"] == 1 else other

    rig.ingest(key_column="k", partitioner=choose)
    assert seen == [(TOPIC, "ada", row, 4) for row in rows]
    assert (len(rig.partition(default)), len(rig.partition(other))) == (1, 1)


def test_rows_without_a_key_go_to_all_partitions(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    write_json_lines(rig.folder / "rows.jsonl", [{"n": number} for number in range(2_000)])
    rig.ingest()
    assert [len(rig.partition(partition)) for partition in range(4)] == [512, 512, 512, 464]
    assert {record.key for record in rig.records()} == {None}


def test_csv_is_text_unless_a_type_is_given_and_quotes_make_the_difference_between_empty_and_null(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, partitions=1)
    (rig.folder / "rows.csv").write_text(
        'zip;open;score;note\n00123;true;1.5;"a\nb; ""c"""\n;;;""\n', encoding="utf-8-sig"
    )
    rig.ingest(form=CsvForm(";", {"open": CsvType.BOOLEAN, "score": CsvType.DOUBLE}))
    assert rig.values() == [
        {"zip": "00123", "open": True, "score": 1.5, "note": 'a\nb; "c"'},
        {"zip": None, "open": None, "score": None, "note": ""},
    ]


def test_json_lines_are_read_to_the_last_line_without_an_end_and_empty_lines_are_no_rows(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=1)
    (rig.folder / "rows.json").write_bytes(b'{"n":1}\r\n\n{"n":12345678901234567890,"x":{"b":1,"a":2}}')
    report = rig.ingest()
    assert (report.skipped, len(rig.records())) == (0, 2)
    assert rig.records()[1].value == b'{"n":12345678901234567890,"x":{"b":1,"a":2}}'


def test_a_value_of_one_column_needs_a_serde_that_takes_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    write_json_lines(rig.folder / "rows.jsonl", ROWS)
    with pytest.raises(StreamsError, match=r"serde long takes one column, .* all columns: give one --value-column"):
        rig.ingest(value_serde=Serdes.long())
