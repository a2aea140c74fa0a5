"""``penstock archive --format iceberg``: the table has each record once, and readers need no penstock."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from typing_extensions import override

from penstock.common.errors import ArchiveError, ConfigError, StreamsError
from penstock.common.serdes import Serdes
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.cleaning import KEPT_MS
from penstock.pipeline.archive.compaction import compact
from penstock.pipeline.archive.decoding import Decoding, NamedSerde
from penstock.pipeline.archive.iceberg_publisher import IcebergPublisher
from penstock.pipeline.archive.opening import now_ms
from penstock.pipeline.archive.topic_log import TopicLog
from penstock.pipeline.iceberg_catalog import IcebergCatalog
from tests.pipeline.archive.making import begun, span, table, written
from tests.pipeline.archive.without_spark import Cluster, Deadly, KilledError


def catalog_in(folder: Path) -> IcebergCatalog:
    return IcebergCatalog("default", {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"})


@dataclass
class Published:
    """An archive in a folder, and its table. ``log``: a run has begun."""

    folder: Path

    def __post_init__(self) -> None:
        self.objects = ObjectLocation(str(self.folder / "an archive")).open()
        self.log = begun(self.objects)
        self.catalog = catalog_in(self.folder)
        self.publisher = self.another()

    def another(self) -> IcebergPublisher:
        return IcebergPublisher(self.objects, self.catalog, "kafka")

    def commit(self, begin: int, end: int) -> None:
        self.log.commit("run-1", 2_000, [span(begin, end)], [written(self.objects, begin, end)])

    def publish(self) -> bool:
        return self.publisher.publish(self.log.archived)

    def table(self) -> Table:
        return self.catalog.open().load_table("kafka.lines")

    def offsets(self) -> list[int]:
        return sorted(self.table().scan().to_arrow().column("offset").to_pylist())


@pytest.fixture
def published(tmp_path: Path) -> Published:
    return Published(tmp_path)


def test_a_table_has_the_columns_of_the_archive_and_offsets_in_its_snapshots(published: Published) -> None:
    published.commit(0, 10)
    published.publish()
    published.commit(10, 15)
    published.publish()
    found = published.table()
    rows = found.scan().to_arrow().sort_by("offset")
    assert (
        rows.drop(["headers", "timestamp"]).to_pylist() == table(range(15)).drop(["headers", "timestamp"]).to_pylist()
    )
    assert (
        rows.column("timestamp").cast(pa.timestamp("ms", "UTC")).to_pylist()
        == table(range(15))["timestamp"].to_pylist()
    )
    assert rows.column("headers")[3].as_py() == [{"key": "h", "value": b"3"}]
    marks: list[Any] = [snapshot.summary for snapshot in found.snapshots()]
    assert [mark["penstock.offsets"] for mark in marks] == ['{"0":10}', '{"0":15}']
    assert {mark["penstock.topic-id"] for mark in marks} == {"id-1"}
    assert found.scan(row_filter="partition = 1").to_arrow().num_rows == 0
    assert found.scan().to_duckdb("lines").execute('SELECT max("offset") FROM lines').fetchall() == [(14,)]
    assert found.scan().to_pandas()["value"].notna().sum() == 13


def test_nothing_new_is_no_commit(published: Published) -> None:
    published.commit(0, 10)
    published.publish()
    published.publish()
    published.another().publish(published.log.archived)
    assert len(published.table().snapshots()) == 1


def test_compaction_replaces_files_in_one_commit(published: Published) -> None:
    for begin in range(0, 80, 10):
        published.commit(begin, begin + 10)
    published.publish()
    assert compact(published.objects, published.log, lambda: 3_000).before == 8
    assert published.publisher.difference(published.log.archived) is not None
    assert published.publish(), "files were removed"
    assert published.offsets() == list(range(80))
    assert len(list(published.table().scan().plan_files())) == 1
    assert len(published.table().snapshots()) == 2
    assert published.publisher.difference(published.log.archived) is None


def test_a_commit_beside_ours_is_planned_again_not_repeated(published: Published) -> None:
    """A retry of pyiceberg would add the files a second time."""
    published.commit(0, 10)
    published.publish()
    published.commit(10, 20)
    stale = published.another()
    table_of = stale._table

    def overtaken(name: str, archived: Any) -> Table:
        found = table_of(name, archived)
        published.publish()
        return found

    stale._table = overtaken  # type: ignore[method-assign]
    stale.publish(published.log.archived)
    assert published.offsets() == list(range(20))


def test_a_table_of_another_archive_is_refused_before_any_work(published: Published, tmp_path: Path) -> None:
    published.commit(0, 10)
    published.publish()
    elsewhere = ObjectLocation(str(tmp_path / "other")).open()
    other = IcebergPublisher(elsewhere, published.catalog, "kafka")
    with pytest.raises(
        ArchiveError, match=r"kafka.lines is of the archive file:.*an%20archive .*cannot be in one table"
    ):
        other.check("lines", "id-1")
    published.catalog.open().create_table("kafka.foreign", table([0]).schema, f"file://{tmp_path}/foreign")
    with pytest.raises(ArchiveError, match=r"Iceberg table kafka\.foreign exists and is of no archive: drop it"):
        other.check("foreign", "id-1")


def test_topics_whose_tables_would_have_the_same_name_are_refused_before_any_work(published: Published) -> None:
    advice = "archive one of the topics by a command of its own, with another namespace: --catalog NAME.NAMESPACE"
    publisher = published.another()
    publisher.check("a.b", "id-1")
    with pytest.raises(ConfigError, match=rf"a\.b and a-b would both be in Iceberg table kafka\.a_b, .*{advice}"):
        publisher.check("a-b", "id-2")
    published.commit(0, 10)
    published.publish()
    with pytest.raises(ArchiveError, match=rf"kafka\.lines has topic lines \(id id-1\) of this archive, .*{advice}"):
        published.another().check("lines", "id-of-another")


def test_a_catalog_that_is_not_there_is_named(tmp_path: Path) -> None:
    objects = ObjectLocation(str(tmp_path)).open()
    with pytest.raises(ConfigError, match=r"the Iceberg catalog 'nowhere' cannot be opened.*Set iceberg\.uri"):
        IcebergPublisher(objects, IcebergCatalog("nowhere"), "kafka").check("lines", "id-1")


def test_rows_that_another_program_deletes_stay_deleted(published: Published) -> None:
    for begin in range(0, 80, 10):
        published.commit(begin, begin + 10)
    published.publish()
    published.table().delete("offset >= 5 and offset < 15")
    published.commit(80, 90)
    published.publish()
    kept = [*range(5), *range(15, 90)]
    assert published.offsets() == kept
    published.commit(90, 100)
    published.another().publish(published.log.archived)
    assert published.offsets() == [*kept, *range(90, 100)]


def test_files_of_a_table_are_not_deleted_by_others(published: Published) -> None:
    published.commit(0, 10)
    published.publish()
    assert published.table().properties["gc.enabled"] == "false"


@pytest.mark.parametrize(("hours", "kept"), [(23, 5), (25, 1)])
def test_snapshots_are_removed_after_a_day_as_soon_as_there_are_many(
    published: Published, monkeypatch: pytest.MonkeyPatch, hours: int, kept: int
) -> None:
    class Later(datetime):
        @override
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + timedelta(hours=hours)

    monkeypatch.setattr("penstock.pipeline.archive.iceberg_publisher._OLD_SNAPSHOTS", 3)
    for begin in range(0, 40, 10):
        published.commit(begin, begin + 10)
        published.publish()
    assert len(published.table().snapshots()) == 4
    monkeypatch.setattr("penstock.pipeline.archive.iceberg_publisher.datetime", Later)
    published.commit(40, 50)
    published.publish()
    assert len(published.table().snapshots()) == kept
    published.commit(50, 60)
    published.another().publish(published.log.archived)
    assert published.offsets() == list(range(60))
    assert published.publisher.difference(published.log.archived) is None


class Run:
    """Runs of topics of the fake broker, whose archive is in a folder, and in tables."""

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster()
        objects: Any = ObjectLocation(str(folder / "archive")).open()
        self.cluster.objects = objects
        self.catalog = catalog_in(folder)

    def archive(self, objects: Any = None, **more: Any) -> None:
        objects = objects or self.cluster.objects
        publisher = IcebergPublisher(objects, self.catalog, "kafka")
        self.cluster.archive(objects, publisher=publisher, **more)

    def check_whole(self) -> None:
        for topic, expected in self.cluster.expected().items():
            found = self.catalog.open().load_table(f"kafka.{topic}").scan().to_arrow()
            columns = ["partition", "offset", "key", "value"]
            in_order = found.select(columns).sort_by([("partition", "ascending"), ("offset", "ascending")])
            assert in_order.to_pylist() == expected.select(columns).to_pylist()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.mark.submission
def test_a_run_that_is_killed_is_continued_in_the_table_too(run: Run) -> None:
    run.cluster.send(6)
    for at in (15, 30, 45):
        with pytest.raises(KilledError):
            run.archive(Deadly(run.cluster.objects, at), step=6)
        run.cluster.send(6)
    run.archive()
    run.check_whole()


@pytest.mark.submission
def test_a_run_that_is_killed_between_manifest_and_table_is_continued(run: Run, monkeypatch: Any) -> None:
    for when in ("before", "after"):
        run.cluster.send(4)
        commit = IcebergPublisher._commit

        def killed(self: Any, *given: Any, when: str = when, commit: Any = commit) -> None:
            if when == "after":
                commit(self, *given)
            raise KilledError

        monkeypatch.setattr(IcebergPublisher, "_commit", killed)
        with pytest.raises(KilledError):
            run.archive()
        monkeypatch.undo()
        run.archive()
        run.check_whole()


def test_an_archive_becomes_a_table_later_and_then_stays_one(run: Run) -> None:
    run.cluster.send(3)
    run.cluster.archive(run.cluster.objects)
    run.archive()
    run.check_whole()
    with pytest.raises(
        ArchiveError, match=r"is also Iceberg table kafka.lines of catalog default: give --format iceberg"
    ):
        run.cluster.archive(run.cluster.objects)


def test_decoded_columns_are_columns_of_the_table(run: Run) -> None:
    run.cluster.send(1)
    run.archive()
    run.cluster.send(2)
    run.archive(decoding={"others": Decoding(value=NamedSerde("string", Serdes.string()))})
    run.check_whole()
    found = run.catalog.open().load_table("kafka.others").scan().to_pandas()
    assert found["value_decoded"].isna().sum() == 1
    run.cluster.send(2)
    with pytest.raises(StreamsError, match=r"kafka\.others of catalog default: .*value_decoded"):
        run.archive(decoding={"others": Decoding(value=NamedSerde("double", Serdes.double()))})


def test_files_that_leave_the_table_at_this_moment_are_not_deleted_yet(run: Run, tmp_path: Path) -> None:
    """A reader of the table may be busy with them, although the archive replaced them more than a day ago."""
    for _ in range(2):
        run.cluster.send(2)
        run.archive()
    log = TopicLog(run.cluster.objects, Archive(run.cluster.objects).generations("others")[0])
    replaced = {file.name for file in log.archived.all_files()}
    assert compact(run.cluster.objects, log, now_ms, worthwhile=2).before
    long_ago = time.time() - 2 * KEPT_MS / 1000
    for file in (tmp_path / "archive" / "others").rglob("*.*"):
        os.utime(file, (long_ago, long_ago))
    run.archive()
    assert replaced <= {info.name for info in run.cluster.objects.list()}
    run.check_whole()
    run.archive()
    assert not replaced & {info.name for info in run.cluster.objects.list()}
    run.check_whole()
