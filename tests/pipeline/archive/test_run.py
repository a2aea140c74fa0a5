"""``penstock archive`` on a real broker: each record once, whatever was archived before and whatever has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.common.errors import ArchiveError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.serdes import Serdes
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.decoding import Decoding, NamedSerde
from tests.kafka.stable import until_stable
from tests.pipeline.archive.archiving import Rig
from tests.waiting import eventually


@pytest.fixture
def rig(broker: str, tmp_path: Path, spark: SparkSession) -> Rig:
    return Rig(broker, tmp_path / "archive", spark)


def test_topics_are_archived_as_they_are_and_the_next_run_continues(rig: Rig, topic_name: Callable[[str], str]) -> None:
    lines, others = topic_name("lines"), topic_name("others")
    rig.create(lines, 2)
    rig.create(others)
    rig.send(lines, map(str, range(300)), 0, headers=[("h", b"1"), ("h", None)])
    rig.send(lines, map(str, range(10)), 1)
    rig.send(others, ["one"])
    (batch,) = rig.archive(lines, others)
    assert (batch.records, batch.files) == (311, 3)
    assert rig.rows(lines) == rig.in_kafka(lines)
    assert rig.table(lines).column("headers")[0].as_py() == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert rig.archived(others).partitions == {0: OffsetRange(0, 1)}

    assert rig.archive(lines, others) == []
    rig.send(lines, map(str, range(50)), 1)
    (batch,) = rig.archive(lines, others)
    assert (batch.records, batch.files) == (50, 1)
    assert rig.rows(lines) == rig.in_kafka(lines)
    assert [file.name.partition("/")[2] for file in rig.archived(lines).all_files()] == [
        "0/00000000000000000000-00000000000000000300.parquet",
        "1/00000000000000000000-00000000000000000010.parquet",
        "1/00000000000000000010-00000000000000000060.parquet",
    ]


def test_a_long_history_is_committed_in_parts_and_written_in_files_of_a_bounded_size(
    rig: Rig, topic_name: Callable[[str], str]
) -> None:
    lines = topic_name("lines")
    rig.create(lines)
    rig.send(lines, (f"{number:0200}" for number in range(25_000)))
    batches = rig.archive(lines, records_per_commit=12_500, file_bytes=1)
    assert [batch.records for batch in batches] == [12_500, 12_500]
    files = rig.archived(lines).all_files()
    assert len(files) > 2
    assert [file.begin for file in files[1:]] == [file.end for file in files[:-1]]
    assert rig.rows(lines) == rig.in_kafka(lines)


def test_aborted_records_are_left_out_and_an_open_transaction_is_waited_for(
    rig: Rig, topic_name: Callable[[str], str]
) -> None:
    lines = topic_name("lines")
    rig.create(lines)
    rig.transaction(lines, ["a", "b"], "commit").close()
    rig.transaction(lines, ["no", "no"], "abort").close()
    rig.send(lines, ["c"])
    still_open = rig.transaction(lines, ["d"], "")
    rig.archive(lines)
    assert [row[3] for row in rig.rows(lines)] == [b"a", b"b", b"c"]
    assert rig.archived(lines).partitions == {0: OffsetRange(0, 7)}
    still_open.commit_transaction({}, b"").result()
    still_open.close()
    until_stable(rig.clients, [TopicPartition(lines, 0)])
    rig.archive(lines)
    assert [row[3] for row in rig.rows(lines)] == [b"a", b"b", b"c", b"d"]
    assert rig.archived(lines).partitions == {0: OffsetRange(0, 9)}


def test_a_partition_that_was_added_is_archived_from_its_beginning(rig: Rig, topic_name: Callable[[str], str]) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

    lines = topic_name("lines")
    rig.create(lines)
    rig.send(lines, ["a"])
    rig.archive(lines)
    client = AdminClient({"bootstrap.servers": rig.broker})
    client.create_partitions([NewPartitions(lines, 3)])[lines].result()
    eventually(lambda: rig.clients.admin().topics()[lines] == 3, "three partitions")
    rig.send(lines, ["b"], 2)
    rig.archive(lines)
    assert rig.rows(lines) == rig.in_kafka(lines)
    assert len(rig.rows(lines)) == 2


def test_a_topic_that_was_created_again_is_another_generation(rig: Rig, topic_name: Callable[[str], str]) -> None:
    lines = topic_name("lines")
    rig.create(lines)
    rig.send(lines, ["a", "b", "c"])
    rig.archive(lines)
    admin = rig.clients.admin()
    admin.delete_topics([lines])
    eventually(lambda: lines not in admin.topics(), "the topic is deleted")
    rig.create(lines)
    rig.send(lines, ["z"])
    rig.archive(lines)
    first, second = Archive(rig.objects).generations(lines)
    assert rig.archived(lines, first.topic_id).partitions == {0: OffsetRange(0, 3)}
    assert rig.archived(lines, second.topic_id).partitions == {0: OffsetRange(0, 1)}
    assert [row[3] for row in rig.rows(lines)] == [b"z"]


def test_records_that_kafka_has_deleted_are_named_and_passed_over_only_if_that_is_accepted(
    rig: Rig, topic_name: Callable[[str], str]
) -> None:
    lines = topic_name("lines")
    rig.create(lines)
    rig.send(lines, map(str, range(10)))
    rig.archive(lines)
    rig.send(lines, map(str, range(10)))
    rig.clients.admin().delete_records({TopicPartition(lines, 0): 15})
    with pytest.raises(ArchiveError, match=rf"\(retention\): {lines}-0 offsets 10 to 14\. .* give --accept-loss"):
        rig.archive(lines)
    assert rig.archived(lines).partitions == {0: OffsetRange(0, 10)}
    rig.archive(lines, accept_loss=True)
    assert [row[1] for row in rig.rows(lines)] == [*range(10), *range(15, 20)]
    with pytest.raises(ArchiveError, match="lacks offsets 10 to 14"):
        rig.archived(lines).files(0, OffsetRange(0, 20))


def test_decoded_columns_stand_beside_the_bytes_and_what_does_not_decode_is_counted(
    rig: Rig, topic_name: Callable[[str], str]
) -> None:
    lines = topic_name("lines")
    rig.create(lines)
    rig.send(lines, ['{"n": 1}', "no json", "[2]"])
    decoding = Decoding(NamedSerde("string", Serdes.string()), NamedSerde("json", Serdes.json()))
    (batch,) = rig.archive(lines, decoding={lines: decoding})
    assert batch.undecodable == 1
    table = rig.table(lines)
    assert table.column("key_decoded").to_pylist() == ["k0", "k1", "k2"]
    assert table.column("value_decoded").to_pylist() == ['{"n":1}', None, "[2]"]
    assert table.column("value").to_pylist() == [b'{"n": 1}', b"no json", b"[2]"]
    (file,) = rig.archived(lines).all_files()
    assert (file.undecodable, file.decoded) == (1, "key=string,value=json")
