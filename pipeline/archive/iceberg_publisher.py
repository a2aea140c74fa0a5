"""Publishes an archive in Iceberg tables, by pyiceberg: a table for each generation, in which its files are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow.parquet as pq
from typing_extensions import override

from penstock.common.errors import ArchiveError, ConfigError
from penstock.objects.contracts import ObjectStore
from penstock.objects.ranged_file import RangedFile
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.cleaning import KEPT_MS
from penstock.pipeline.archive.manifest import TABLES, ArchivedFile, PublishedTo, encoded
from penstock.pipeline.archive.publication import InTable, Publication, Publisher, plan_publication
from penstock.pipeline.iceberg_catalog import IcebergCatalog

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table

_ATTEMPTS = 10
_OLD_SNAPSHOTS = 100
"""Number of snapshots older than a day that are worth a commit that removes them."""
_ARCHIVE, _ENTRY, _OFFSETS = "penstock.archive", "penstock.entry", "penstock.offsets"
_TOPIC, _ID, _REWRITTEN = "penstock.topic", "penstock.topic-id", "penstock.rewritten"
_ONE_TOPIC = "archive one of the topics by a command of its own, with another namespace: --catalog NAME.NAMESPACE"
_RETRIES = "commit.retry.num-retries"
_PROPERTIES = {
    # A retry of pyiceberg would add the files again beside another commit: publish() plans again instead.
    _RETRIES: "0",
    # The files are the archive's: no other program may delete them.
    "gc.enabled": "false",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    # Columns without statistics in the files.
    "write.metadata.metrics.column.value": "none",
    "write.metadata.metrics.column.headers.element.key": "none",
    "write.metadata.metrics.column.headers.element.value": "none",
}


@dataclass
class IcebergPublisher(Publisher):
    """Publishes generations of the archive in ``objects``, to tables in ``namespace``. Not for several threads."""

    objects: ObjectStore
    catalog: IcebergCatalog
    namespace: str
    _folders: dict[str, str] = field(default_factory=dict)
    """By table: the folder of its generation."""
    _known: dict[str, tuple[int, Mapping[str, FileScanTask]]] = field(default_factory=dict)
    """By table: the id of a snapshot, and its files."""
    _opened: Catalog | None = None

    @override
    def check(self, folder: str, topic_id: str) -> None:
        _location_of(self.objects.url)
        name = self.table_name(folder)
        other = self._folders.setdefault(name, folder)
        if other != folder:
            raise ConfigError(
                f"{other} and {folder} would both be in Iceberg table {name}, because characters other than letters "
                f"and digits become _: {_ONE_TOPIC}"
            )
        with self._errors(name):
            if self._catalog().table_exists(name):
                self._check_owner(self._catalog().load_table(name), topic_id)

    @override
    def publish(self, archived: ArchivedTopic) -> bool:
        from pyiceberg.exceptions import CommitFailedException

        name = self.table_name(archived.folder)
        for _ in range(_ATTEMPTS):
            with self._errors(name):
                table = self._table(name, archived)
                files = self._files(table)
                planned = plan_publication(archived, self._state(table, files))
                try:
                    if planned:
                        self._commit(table, archived, planned, files)
                    self._expire(table)
                except CommitFailedException:
                    continue  # another commit came between: what is missing now is planned again
                return bool(planned.removes)
        raise ArchiveError(
            f"Iceberg table {name} was changed by others {_ATTEMPTS} times while its files were added. The archive "
            "has them: run this again, and they are added to the table"
        )

    def table_name(self, folder: str) -> str:
        """Returns the name of the table of a generation."""
        return f"{self.namespace}.{re.sub(r'[^A-Za-z0-9_]', '_', folder)}"

    def difference(self, archived: ArchivedTopic) -> str | None:
        """Returns how the table differs from the archive; None if it does not, or was rewritten by others."""
        name = self.table_name(archived.folder)
        with self._errors(name):
            table = self._catalog().load_table(name)
            self._check_owner(table, archived.topic_id)
            files = self._files(table)
            planned = plan_publication(archived, self._state(table, files))
        if not planned:
            return None
        return (
            f"table {name} lacks {len(planned.adds)} files and has {len(planned.removes)} that the archive has "
            "replaced: the next run of penstock archive changes that"
        )

    def _catalog(self) -> Catalog:
        self._opened = self._opened or self.catalog.open()
        return self._opened

    def _errors(self, name: str) -> Any:
        return self.catalog.errors(f"Iceberg table {name} of catalog {self.catalog.name}")

    def _table(self, name: str, archived: ArchivedTopic) -> Table:
        """Returns the table as it is now; makes it if there is none."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table = self._catalog().load_table(name)
        except NoSuchTableError:
            table = self._make(name, archived)
        self._check_owner(table, archived.topic_id)
        if table.properties.get(_RETRIES) != "0":
            with table.transaction() as change:
                change.set_properties({_RETRIES: "0"})
        return table

    def _make(self, name: str, archived: ArchivedTopic) -> Table:
        from pyiceberg.exceptions import TableAlreadyExistsError
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.transforms import IdentityTransform

        schema = _schema()
        place = PublishedTo(catalog=self.catalog.name, table=name)
        self.objects.put(PublishedTo.object_name(archived.folder), encoded(place))
        self._catalog().create_namespace_if_not_exists(self.namespace)
        by_partition = PartitionField(schema.find_field("partition").field_id, 1000, IdentityTransform(), "partition")
        owner = {_ARCHIVE: self.objects.url, _TOPIC: archived.topic, _ID: archived.topic_id}
        try:
            return self._catalog().create_table(
                name,
                schema,
                location=f"{_location_of(self.objects.url)}/{TABLES}{archived.folder}",
                partition_spec=PartitionSpec(by_partition),
                properties={
                    **_PROPERTIES,
                    **owner,
                    "schema.name-mapping.default": schema.name_mapping.model_dump_json(),
                },
            )
        except TableAlreadyExistsError:
            return self._catalog().load_table(name)

    def _check_owner(self, table: Table, topic_id: str) -> None:
        has = table.properties.get(_ARCHIVE), table.properties.get(_ID)
        if has == (self.objects.url, topic_id):
            return
        name = ".".join(table.name())
        if has[0] is None:
            raise ArchiveError(
                f"Iceberg table {name} exists and is of no archive: drop it, or choose another namespace by --catalog "
                "NAME.NAMESPACE"
            )
        topic = table.properties.get(_TOPIC)
        if has[0] == self.objects.url:
            raise ArchiveError(
                f"Iceberg table {name} has topic {topic} (id {has[1]}) of this archive, not of id {topic_id}. "
                f"If that topic is not archived here any more, drop the table. Otherwise {_ONE_TOPIC}"
            )
        raise ArchiveError(
            f"Iceberg table {name} is of the archive {has[0]} (topic {topic}, id {has[1]}), and "
            f"this is {self.objects.url} (topic id {topic_id}): two archives cannot be in one table. Choose another "
            "namespace by --catalog NAME.NAMESPACE"
        )

    def _files(self, table: Table) -> Mapping[str, FileScanTask]:
        """Returns the files of the table's snapshot, by URL."""
        snapshot, name = table.current_snapshot(), ".".join(table.name())
        if snapshot is None:
            return {}
        if self._known.get(name, (0, {}))[0] != snapshot.snapshot_id:
            tasks = {task.file.file_path: task for task in table.scan().plan_files()}
            self._known[name] = snapshot.snapshot_id, tasks
        return self._known[name][1]

    def _state(self, table: Table, files: Mapping[str, FileScanTask]) -> InTable:
        root, snapshot = f"{_location_of(self.objects.url)}/", table.current_snapshot()
        ours = {
            # With rows that others have deleted, a file is not as it was.
            url.removeprefix(root): -1 if task.delete_files else task.file.record_count
            for url, task in files.items()
            if url.startswith(root) and not url.startswith(f"{root}{TABLES}")
        }
        by_others = snapshot is not None and _ENTRY not in (snapshot.summary or {})
        return InTable(
            ours,
            msgspec.json.decode(table.properties.get(_OFFSETS, "{}"), type=dict[int, int]),
            int(table.properties.get(_ENTRY, "0")),
            by_others or table.properties.get(_REWRITTEN) == "true" or len(ours) != len(files),
        )

    def _commit(
        self, table: Table, archived: ArchivedTopic, planned: Publication, files: Mapping[str, FileScanTask]
    ) -> None:
        from pyiceberg.io.pyarrow import parquet_files_to_data_files

        root = f"{_location_of(self.objects.url)}/"
        self._widen(table, planned.adds)
        ends = {partition: offsets.end for partition, offsets in archived.partitions.items()}
        marks = {
            _ENTRY: str(archived.number),
            _OFFSETS: msgspec.json.encode(ends).decode(),
            _TOPIC: archived.topic,
            _ID: archived.topic_id,
        }
        changed = {_REWRITTEN: "true"} if self._state(table, files).rewritten else {}
        adds = [root + file.name for file in planned.adds]
        with table.transaction() as change:
            change.set_properties({**marks, **changed})
            if not planned.removes:
                change.add_files(adds, snapshot_properties=marks, check_duplicate_files=False)
            else:
                with change.update_snapshot(snapshot_properties=marks).overwrite() as swap:
                    for made in parquet_files_to_data_files(table.io, change.table_metadata, iter(adds)):
                        swap.append_data_file(made)
                    for name in planned.removes:
                        swap.delete_data_file(files[root + name].file)

    def _widen(self, table: Table, adds: Iterable[ArchivedFile]) -> None:
        """Add the decoded columns that some files have."""
        for file in {file.decoded: file for file in adds if file.decoded}.values():
            schema = pq.read_schema(RangedFile(self.objects, file.name, file.bytes))
            with table.update_schema() as change:
                change.union_by_name(schema)

    def _expire(self, table: Table) -> None:
        """Remove snapshots older than a day: the archive deletes the files that they alone have."""
        limit = datetime.now(UTC) - timedelta(milliseconds=KEPT_MS)
        old = [it for it in table.metadata.snapshots if it.timestamp_ms < limit.timestamp() * 1000]
        if len(old) > _OLD_SNAPSHOTS:
            table.maintenance.expire_snapshots().older_than(limit).commit()


def _location_of(url: str) -> str:
    """Returns the URL of an archive as Iceberg's readers take it. Raises ConfigError if there is none."""
    scheme = urlsplit(url).scheme
    if scheme == "az":
        raise ConfigError(
            f"{url}: an Iceberg table on Azure is not supported: use a folder, S3 or Google Cloud Storage"
        )
    return unquote(url.rstrip("/")) if scheme == "file" else url.rstrip("/")


def _schema() -> Schema:
    """Returns the columns of a table: those of the files."""
    from pyiceberg import types
    from pyiceberg.schema import Schema

    header = types.StructType(
        types.NestedField(9, "key", types.StringType()), types.NestedField(10, "value", types.BinaryType())
    )
    return Schema(
        types.NestedField(1, "key", types.BinaryType()),
        types.NestedField(2, "value", types.BinaryType()),
        types.NestedField(3, "topic", types.StringType(), required=True),
        types.NestedField(4, "partition", types.IntegerType(), required=True),
        types.NestedField(5, "offset", types.LongType(), required=True),
        types.NestedField(6, "timestamp", types.TimestamptzType(), required=True),
        types.NestedField(7, "headers", types.ListType(8, header, element_required=False)),
    )
