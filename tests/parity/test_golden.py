"""The report on a corpus that another Kafka Streams answers differently; without a JVM."""

from __future__ import annotations

from pathlib import Path

from tests.parity import corpus
from tests.parity.compare import FIELDS, asked
from tests.parity.golden import changed_fields, summary

KEPT = corpus.read("more.jsonl.gz")[0]


def test_the_same_answer_changes_nothing() -> None:
    assert changed_fields(KEPT, dict(KEPT)) == []
    assert summary("more.jsonl.gz", {KEPT["name"]: []}, 1) == ["more.jsonl.gz: 1 cases, nothing changed"]


def test_each_field_is_looked_at() -> None:
    for field in FIELDS:
        assert changed_fields(KEPT, {**KEPT, field: "other"}) == [field]


def test_a_case_that_was_just_added_changes_in_all_fields() -> None:
    assert changed_fields(asked(KEPT), KEPT) == list(FIELDS)


def test_a_case_that_is_refused_now_is_a_change() -> None:
    assert changed_fields(KEPT, {"name": KEPT["name"], "error": "no"}) == ["refused"]


def test_changes_are_counted_by_field_and_named_up_to_a_number() -> None:
    changes = {f"case-{number}": ["output", "metrics"] if number % 2 else [] for number in range(60)}
    message = summary("more.jsonl.gz", changes, 60)
    assert message[0] == "more.jsonl.gz: 60 cases, 30 changed (output 30, metrics 30)"
    assert message[1] == "  case-1: output, metrics"
    assert message[-1] == "  and 10 more"
    assert len(message) == 22


def test_written_cases_are_read_back_and_have_the_same_bytes_each_time(tmp_path: Path) -> None:
    cases = corpus.read("more.jsonl.gz")
    for name in ("all.jsonl.gz", "all.jsonl"):
        file = tmp_path / name
        corpus.write(str(file), cases)
        first = file.read_bytes()
        corpus.write(str(file), cases)
        assert file.read_bytes() == first
        assert corpus.read(str(file)) == cases
