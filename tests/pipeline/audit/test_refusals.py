"""Audits that are refused: what cannot be audited is refused by name, and the application is left as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import penstock as ps
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import TaskId, TopicPartition
from penstock.pipeline.audit.audit import AuditReport
from penstock.pipeline.audit.comparing import ComputedStore, compared
from penstock.pipeline.audit.task_audit import MOST_RANGES, StoreSummary
from penstock.state.key_sample import KeySample
from penstock.state.range_digests import RangeDigest, Row
from tests.pipeline.audit.rig import Application
from tests.pipeline.audit.test_audit import STRING, consumed, word_count


def tables(reset: Literal["earliest", "latest"] = "earliest") -> ps.Topology:
    builder = ps.StreamsBuilder()
    source = ps.Consumed.with_(STRING, STRING, offset_reset=reset)
    builder.table("in", source, materialized=ps.Materialized.as_("table"))
    builder.global_table("global", consumed(), materialized=ps.Materialized.as_("everywhere"))
    return builder.build()


def audited(app: Application, patched: pytest.MonkeyPatch) -> AuditReport:
    return app.audit(patched)


def test_records_that_are_gone_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Application(tables(), tmp_path, ["in", "global"])
    for number in range(10):
        app.send("in", "k", b"v", number, 1)
    app.settle()
    app.broker.delete_records(TopicPartition("in", 1), 4)
    with pytest.raises(ApplicationStateError, match="partition 1 of topic 'in' begins with offset 4"):
        audited(app, monkeypatch)


def test_a_source_that_is_read_from_its_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Application(tables("latest"), tmp_path, ["in", "global"])
    with pytest.raises(ConfigError, match="does not read topic 'in' from its beginning on"):
        audited(app, monkeypatch)


def test_windows_that_close_by_the_clock_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Application(word_count(), tmp_path, ["lines"], window_idle_advance_ms=1000)
    with pytest.raises(ConfigError, match=r"window\.idle\.advance\.ms"):
        audited(app, monkeypatch)


def test_another_program_than_the_one_that_runs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Application(tables(), tmp_path, ["in", "global"])
    app.send("in", "k", b"v", 1)
    app.settle()
    builder = ps.StreamsBuilder()
    store = ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("table"), STRING, STRING)
    builder.add_state_store(store)
    builder.stream("in", consumed()).process(Nothing, "table")
    builder.global_table("global", consumed(), materialized=ps.Materialized.as_("everywhere"))
    app.topology = builder.build()
    with pytest.raises(ApplicationStateError, match="store 'table' of task 0_0 have the form 'timestamped key-value'"):
        audited(app, monkeypatch)


class Nothing(ps.Processor[str, str, str, str]):
    def process(self, record: ps.Record[str, str]) -> None:
        """Does nothing."""


def test_stores_that_are_not_compared_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Application(tables(), tmp_path, ["in", "global"])
    app.send("in", "k", b"v", 1)
    app.settle()
    report = audited(app, monkeypatch)
    assert report.is_clean
    assert report.not_compared == {"everywhere": "it is a global store, of which each stream actor has its own"}


class OtherRows:
    """Live stores of which every range has one row that nobody computed."""

    offsets: dict[TopicPartition, int] = {}  # noqa: RUF012
    held_s = 0.0
    layouts: dict[TaskId, dict[str, str]] = {}  # noqa: RUF012

    def why_absent(self, task_ids: object, store: str) -> str:
        return "it is not here"

    def digests(self, sample: KeySample | None) -> dict[tuple[TaskId, str], list[RangeDigest]]:
        return {}

    def rows(self, task: TaskId, store: str, begin: bytes, end: bytes | None, sample: KeySample | None) -> list[Row]:
        return [(begin or b"\0", b"live")]

    def close(self) -> None:
        """Nothing is open."""


def test_of_many_ranges_that_differ_the_first_are_compared_and_the_others_counted() -> None:
    ranges = MOST_RANGES + 7
    live = [RangeDigest(number.to_bytes(2, "big") if number else b"", 1, b"x") for number in range(ranges)]
    task = TaskId(0, 0)
    computed = {(task, "s"): ComputedStore(StoreSummary(0, list(range(ranges))))}
    (store,) = compared(OtherRows(), {(task, "s"): live}, computed, 3)
    assert (store.found, store.expected, store.different, store.uncompared_ranges) == (ranges, 0, MOST_RANGES, 7)
    assert len(store.first) == 3
    assert store.differs


def test_a_task_that_got_no_record_from_spark_has_empty_stores() -> None:
    task = TaskId(0, 0)
    (store,) = compared(OtherRows(), {(task, "s"): [RangeDigest(b"", 1, b"x")]}, {}, 3)
    assert (store.different, store.first[0].row.expected, store.first[0].row.found) == (1, None, b"live")
    (empty,) = compared(OtherRows(), {(task, "s"): [RangeDigest(b"", 0, b"x")]}, {}, 3)
    assert not empty.differs
