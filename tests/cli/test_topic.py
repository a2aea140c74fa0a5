"""``penstock topic`` against a real broker: written records are read back the same, and errors are one sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.topic_options import SerdeName
from penstock.cli.topic_read import Form, batches, positions
from penstock.cli.topic_send import LineFormat, Outgoing
from penstock.common.errors import (
    BrokerUnreachableError,
    ConfigError,
    DeserializationError,
    MissingTopicError,
    StreamsError,
)
from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING, RecordConsumer
from tests.waiting import PATIENCE_S, eventually


class Commands:
    """``penstock topic …`` in this process, against one broker."""

    def __init__(self, broker: str) -> None:
        self.broker = broker

    def __call__(self, *arguments: str, text: str | None = None) -> str:
        """Standard output; what it raised is raised here."""
        result = CliRunner(env={"PENSTOCK_BOOTSTRAP_SERVERS": self.broker, "COLUMNS": "200"}).invoke(
            app, ["topic", *arguments], input=text, catch_exceptions=True
        )
        if result.exception is not None:
            raise result.exception
        return result.stdout

    def lines(self, *arguments: str) -> list[str]:
        return self("read", *arguments).splitlines()


@pytest.fixture
def topic(broker: str) -> Commands:
    return Commands(broker)


def test_a_topic_is_created_listed_described_and_deleted(topic: Commands, topic_name: Callable[[str], str]) -> None:
    name = topic_name("made")
    assert topic("create", name, "-p", "3", "--config", "cleanup.policy=compact") == f"Topic {name} is created\n"
    assert [name, "3"] in [line.split() for line in topic("list").splitlines()]
    assert {"name": name, "partitions": 3} in json.loads(topic("list", "--json"))
    topic("send", name, "-k", "=", text="a=b\n")

    shown = topic("describe", name)
    assert [line.split()[0] for line in shown.splitlines()[1:4]] == ["0", "1", "2"]
    assert shown.splitlines()[4:] == ["cleanup.policy=compact"]
    layout = json.loads(topic("describe", name, "--json"))
    assert sum(partition["end"] for partition in layout["partitions"]) == 1
    assert {partition["leader"] for partition in layout["partitions"]} == {1}
    assert layout["configs"] == {"cleanup.policy": "compact"}

    with pytest.raises(ConfigError, match="exists already"):
        topic("create", name)
    topic("delete", name, "--yes")
    assert name not in topic("list", "--internal")


def test_of_several_topics_those_that_are_missing_are_created_and_those_that_exist_left_and_named(
    topic: Commands, topic_name: Callable[[str], str]
) -> None:
    there, missing, other = topic_name("there"), topic_name("missing"), topic_name("other")
    topic("create", there, "-p", "2")
    with pytest.raises(ConfigError, match=f"^topic '{there}' exists already at .* is left as it is") as refused:
        topic("create", missing, there, other, "-p", "3")
    assert missing not in str(refused.value)
    wanted = {there: 2, missing: 3, other: 3}

    def are_listed() -> bool:
        listed = {each["name"]: each["partitions"] for each in json.loads(topic("list", "--json"))}
        return wanted.items() <= listed.items()

    eventually(are_listed, "a broker lists new topics a moment after it has created them")


def test_several_topics_are_deleted_by_one_command_or_none_if_one_is_missing(
    topic: Commands, topic_name: Callable[[str], str]
) -> None:
    first, second = topic_name("first"), topic_name("second")
    topic("create", first, second)
    with pytest.raises(MissingTopicError, match=f"{first}-not"):
        topic("delete", first, f"{first}-not", "--yes")
    assert first in topic("list")
    assert topic("delete", first, second, "--yes") == f"Topic {first} is deleted\nTopic {second} is deleted\n"
    assert not {first, second} & {line.split()[0] for line in topic("list").splitlines()}


def test_records_without_a_key_go_to_all_partitions_in_turn(topic: Commands, topic_name: Callable[[str], str]) -> None:
    name = topic_name("keyless")
    topic("create", name, "-p", "3")
    topic("send", name, text="a\nb\nc\nd\n")
    layout = json.loads(topic("describe", name, "--json"))
    assert [partition["end"] for partition in layout["partitions"]] == [2, 1, 1]


def test_records_of_an_aborted_transaction_are_shown_on_demand(
    topic: Commands, topic_name: Callable[[str], str], broker: str
) -> None:
    name = topic_name("transactions")
    topic("create", name)
    with closing(ConfluentClients(broker, "").transactional_producer(name)) as producer:
        producer.init_transactions().result()
        producer.begin_transaction()
        producer.send(name, None, b"kept", 1)
        producer.commit_transaction({}, b"").result()
        producer.begin_transaction()
        producer.send(name, None, b"dropped", 1)
        producer.flush(30.0)
        producer.abort_transaction().result()
    assert topic.lines(name) == ["kept"]
    assert topic.lines(name, "--uncommitted") == ["kept", "dropped"]


def test_internal_topics_are_listed_on_demand(topic: Commands, topic_name: Callable[[str], str]) -> None:
    name = topic_name("app") + "-counts-changelog"
    topic("create", name)
    assert name not in topic("list")
    assert name in topic("list", "--internal")


def test_a_topic_that_cannot_be_created_is_reported_in_kafkas_words(
    topic: Commands, topic_name: Callable[[str], str]
) -> None:
    with pytest.raises(Exception, match=r"cannot create topic .*cleanup\.policy"):
        topic("create", topic_name("bad"), "-c", "cleanup.policy=never")
    with pytest.raises(ConfigError, match="'compact' is not KEY=VALUE"):
        topic("create", topic_name("bad"), "-c", "compact")


@pytest.mark.parametrize("command", [["describe"], ["read"], ["send"], ["delete", "--yes"]])
def test_a_topic_that_is_missing_is_named_with_those_that_are_like_it(
    topic: Commands, topic_name: Callable[[str], str], command: list[str]
) -> None:
    name = topic_name("orders")
    topic("create", name)
    with pytest.raises(MissingTopicError, match=f"no topic '{name}s'.*similar: {name}.*penstock topic create {name}s"):
        topic(*command, name + "s")


@pytest.mark.submission
def test_a_broker_that_is_down_is_named_and_no_topic_is_blamed() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"no broker answers at 127\.0\.0\.1:1"):
        Commands("127.0.0.1:1")("list")


def test_lines_of_files_and_of_standard_input_are_read_again_as_they_were(
    topic: Commands, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    name = topic_name("lines")
    topic("create", name)
    (tmp_path / "some.txt").write_text("[red]one[/red]\n\ntwo\r\n")
    (tmp_path / "more.txt").write_bytes("drei ü".encode())
    assert topic("send", name, str(tmp_path / "some.txt"), "-", str(tmp_path / "more.txt"), text="in between\n") == (
        f"5 records sent to {name}\n"
    )
    assert topic.lines(name) == ["[red]one[/red]", "", "two", "in between", "drei ü"]
    assert topic.lines(name, "--limit", "2") == ["[red]one[/red]", ""]
    assert topic.lines(name, "--from", "-2") == ["in between", "drei ü"]
    assert topic.lines(name, "--from", "4") == ["drei ü"]
    assert topic.lines(name, "--from", "99") == []
    assert topic.lines(name, "--from", "end") == []


def test_keys_headers_times_and_serdes_are_shown_as_they_were_sent(
    topic: Commands, topic_name: Callable[[str], str]
) -> None:
    name = topic_name("typed")
    topic("create", name, "-p", "2")
    topic("send", name, "--key", "integer", "--value", "double", "-k", "=", "-H", "from=test", text="7=0.5\n-1=2\n")
    shown = topic.lines(name, "--key", "integer", "--value", "double", "--keys", "--headers", "--separator", "|")
    assert sorted(shown) == ["from=test|-1|2.0", "from=test|7|0.5"]
    [first] = topic.lines(name, "--value", "double", "--limit", "1", "--timestamps", "--offsets")
    assert first.split("\t")[1:] in (["0:0", "0.5"], ["1:0", "0.5"], ["0:0", "2.0"], ["1:0", "2.0"])


def test_json_goes_round_with_nulls_headers_times_and_partitions(
    topic: Commands, topic_name: Callable[[str], str]
) -> None:
    one, other = topic_name("one"), topic_name("other")
    topic("create", one, other, "-p", "2")
    records: list[dict[str, Any]] = [
        {"key": "a", "value": {"n": [1, None]}, "headers": [["h", "1"], ["h", "2"]], "timestamp": 5, "partition": 1},
        {"key": "a", "value": None, "timestamp": 6, "partition": 1},
        {"key": None, "value": "text", "timestamp": 7, "partition": 0},
    ]
    topic("send", one, "--json", "--value", "json", text="".join(json.dumps(record) + "\n" for record in records))
    shown = topic("read", one, "--json", "--value", "json")
    found = sorted((json.loads(line) for line in shown.splitlines()), key=lambda it: (-it["partition"], it["offset"]))
    assert found == [{"headers": [], "offset": offset, **each} for offset, each in zip((0, 1, 0), records, strict=True)]
    topic("send", other, "--json", "--value", "json", text=shown)
    again = topic("read", other, "--json", "--value", "json")
    assert sorted(again.splitlines()) == sorted(shown.splitlines())
    assert topic.lines(one, "--value", "json", "--from", "1970-01-01T00:00:00.006+00:00", "--partition", "1") == [
        "null"
    ]


def test_lines_before_a_wrong_line_are_sent(topic: Commands, topic_name: Callable[[str], str]) -> None:
    name = topic_name("half")
    topic("create", name)
    with pytest.raises(ConfigError, match=r"standard input, line 2: value 'x' is no long.*; sent before it: 1 record$"):
        topic("send", name, "--value", "long", text="1\nx\n3\n")
    assert topic.lines(name, "--value", "long") == ["1"]
    with pytest.raises(ConfigError, match=f"line 1: topic '{name}' has no partition 7"):
        topic("send", name, "--json", text='{"value": "a", "partition": 7}\n')


def test_a_value_that_its_serde_cannot_read_is_named_by_its_place(
    topic: Commands, topic_name: Callable[[str], str]
) -> None:
    name = topic_name("text")
    topic("create", name)
    topic("send", name, text="abc\n")
    with pytest.raises(DeserializationError, match=f"value is no long.*--value.*topic {name}, partition 0, offset 0"):
        topic("read", name, "--value", "long")
    assert topic.lines(name, "--value", "bytes") == ['"YWJj"']


def test_following_shows_what_comes_later_and_ctrl_c_ends_it_without_a_word(
    topic: Commands, broker: str, topic_name: Callable[[str], str]
) -> None:
    name = topic_name("followed")
    topic("create", name)
    topic("send", name, text="early\n")
    command = [sys.executable, "-m", "penstock.cli.main", "topic", "read", name, "--follow"]
    env = {**os.environ, "PENSTOCK_BOOTSTRAP_SERVERS": broker}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "early\n"
        topic("send", name, text="late\n")
        assert process.stdout.readline() == "late\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (out, err, process.returncode) == ("", "", 130)


def test_a_reader_of_the_output_that_goes_away_is_no_error(
    topic: Commands, broker: str, topic_name: Callable[[str], str]
) -> None:
    name = topic_name("long")
    topic("create", name)
    topic("send", name, text="x" * 1000 + "\n" + "y\n" * 100_000)
    command = f"{sys.executable} -m penstock.cli.main topic read {name} | head -c 3"
    env = {**os.environ, "PENSTOCK_BOOTSTRAP_SERVERS": broker}
    done = subprocess.run(command, shell=True, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.stdout, done.stderr) == ("xxx", "")


class Offsets:
    """Two partitions with ten records from offset 5 on."""

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 5)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 15)

    def offsets_at(self, partitions: list[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, time_ms)


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        ("beginning", BEGINNING), ("end", 15), ("7", 7), ("0", 5), ("99", 15), ("-3", 12), ("-99", 5),
        ("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:00+01:00", 0),
    ],
)  # fmt: skip
def test_reading_begins_at_an_offset_that_is_there(start: str, offset: int) -> None:
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert positions("--from", start, partitions, Offsets()) == dict.fromkeys(partitions, offset)


def test_an_unknown_beginning_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'yesterday': neither beginning nor end.*2026-11-21T09:30"):
        positions("--from", "yesterday", [], Offsets())


@pytest.mark.parametrize(
    ("form", "line", "record"),
    [
        (LineFormat(), "a=b", Outgoing(None, b"a=b")),
        (LineFormat(separator="="), "a=b=c", Outgoing(b"a", b"b=c")),
        (LineFormat(value=SerdeName.LONG), "1", Outgoing(None, b"\0\0\0\0\0\0\0\1")),
        (LineFormat(as_json=True, value=SerdeName.BYTES), '{"value": "AP8="}', Outgoing(None, b"\x00\xff")),
        (LineFormat(as_json=True), '{"value": null, "key": "k"}', Outgoing(b"k", None)),
        (LineFormat(as_json=True), '{"value": "v", "headers": {"h": "1"}}', Outgoing(None, b"v", (("h", b"1"),))),
    ],
)
def test_a_line_becomes_a_record(form: LineFormat, line: str, record: Outgoing) -> None:
    assert form.read(line.encode(), "here") == record


@pytest.mark.parametrize(
    ("form", "line", "says"),
    [
        (LineFormat(separator=":"), "a=b", "file, line 3: 'a=b' has no separator ':', so no key"),
        (LineFormat(value=SerdeName.LONG), "one", "file, line 3: value 'one' is no long"),
        (LineFormat(as_json=True), "{", "file, line 3: not JSON"),
        (LineFormat(as_json=True), '{"values": 1}', "file, line 3: a record is an object"),
        (LineFormat(as_json=True), '{"value": 1}', "file, line 3: value 1 is no string"),
        (LineFormat(as_json=True), '{"value": "a", "headers": ["h"]}', "file, line 3: headers are an object"),
        (LineFormat(as_json=True), '{"value": "a", "timestamp": "now"}', "timestamp 'now' is not a whole number of ms"),
        (LineFormat(as_json=True), '{"value": "a", "timestamp": -5}', "timestamp -5 is not a whole number of ms, 0"),
        (LineFormat(as_json=True), '{"value": "a", "timestamp": 1.5}', "timestamp 1.5 is not a whole number of ms"),
        (
            LineFormat(as_json=True),
            '{"key": "a", "valu": "x"}',
            "'value' is missing (null deletes), 'valu' is none",
        ),
        (
            LineFormat(as_json=True),
            '{"value": "x", "headrs": {}}',
            "'headrs' is none of key, value, headers, time",
        ),
        (LineFormat(as_json=True), '{"value": "a", "partition": "0"}', "line 3: partition '0' is not a whole number"),
        (LineFormat(as_json=True), '{"value": "a", "partition": true}', "line 3: partition True is not a whole number"),
        (LineFormat(as_json=True), '{"value": "a", "timestamp": 9223372036854775808}', "line 3: timestamp 922337203"),
        (LineFormat(as_json=True), '{"value": "a", "headers": 5}', "file, line 3: headers are an object"),
        (LineFormat(as_json=True), '{"value": "a", "headers": [[5, "x"]]}', "file, line 3: headers are an object"),
        (LineFormat(as_json=True), '{"value": "a", "headers": {"h": {"a": 1}}}', "file, line 3: headers are an object"),
        (LineFormat(as_json=True), "[" * 100_000, "file, line 3: not JSON"),
    ],
)
def test_a_line_that_is_no_record_is_named_by_its_place(form: LineFormat, line: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        form.read(line.encode(), "file, line 3")
    assert says in str(caught.value)


def test_an_integer_of_any_size_stays_an_integer() -> None:
    line = b'{"value": {"n": 18446744073709551616}}'
    assert LineFormat(value=SerdeName.JSON, as_json=True).read(line, "here").value == b'{"n":18446744073709551616}'


def test_bytes_are_sent_as_they_are_beside_a_key_of_text() -> None:
    form = LineFormat(value=SerdeName.BYTES, separator="ü=")
    assert form.read("kü=".encode() + b"\xff\x00", "here") == Outgoing(b"k", b"\xff\x00")


@pytest.mark.parametrize("form", [LineFormat(), LineFormat(as_json=True), LineFormat(separator="=")])
def test_a_line_that_is_no_utf8_is_refused_with_its_line_number_instead_of_changed(form: LineFormat) -> None:
    line = b'{"value": "a\xff"}' if form.as_json else b"k=a\xff"
    with pytest.raises(ConfigError, match=r"^file, line 3: "):
        form.read(line, "file, line 3")


@pytest.mark.parametrize("timestamp", [1_795_253_400_000_000, 10**18, -(10**17)])
def test_a_time_beyond_the_calendar_is_shown_as_its_number(timestamp: int) -> None:
    batch = RecordBatch(TopicPartition("t", 0), [None], [b"v"], [timestamp], [0], None)
    form = Form(SerdeName.STRING.serde, SerdeName.STRING.serde, timestamps=True)
    assert list(form.lines(batch)) == [f"{timestamp}\tv"]


class Retained:
    """A consumer of one partition whose records before ``first`` go once it reads."""

    def __init__(self, first: int, values: Sequence[bytes]) -> None:
        self.first, self.values = first, values
        self.at, self.lost = 0, False

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.at = positions[TopicPartition("t", 0)]

    def poll(self, max_records: int, timeout_s: float) -> list[RecordBatch]:
        assert not self.lost, "nothing more is read until seek: it would be asked for ever"
        if not self.first <= self.at <= self.first + len(self.values):
            self.lost = True
            return []
        values, offset = self.values[self.at - self.first :], self.at
        self.at += len(values)
        offsets = list(range(offset, self.at))
        return [RecordBatch(TopicPartition("t", 0), [None] * len(values), list(values), offsets, offsets, None)]

    def lost_positions(self) -> dict[TopicPartition, int]:
        return {TopicPartition("t", 0): self.at} if self.lost else {}

    def fetch_beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.first)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at, self.lost = offset, False

    def position(self, partition: TopicPartition) -> int:
        return self.at


def test_records_that_go_before_they_are_read_are_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    partition = TopicPartition("t", 0)
    consumer = cast("RecordConsumer", Retained(5, [b"a", b"b"]))
    found = [offset for batch in batches(consumer, {partition: 2}, {partition: 7}) for offset in batch.offsets]
    assert found == [5, 6]
    assert capsys.readouterr().err == (
        "partition 0 of topic 't': the records at offsets 2 to 4 were deleted before they were read\n"
    )
    assert list(batches(consumer, {partition: 2}, {partition: 4})) == [], "what was asked for has gone whole"


def test_a_topic_that_is_recreated_while_it_is_read_ends_the_reading() -> None:
    partition = TopicPartition("t", 0)
    consumer = cast("RecordConsumer", Retained(0, [b"a"]))
    with pytest.raises(StreamsError, match="partition 0 of topic 't': offset 9 no longer exists"):
        list(batches(consumer, {partition: 9}, {partition: 12}))


@pytest.mark.parametrize("name", list(SerdeName))
def test_every_serde_reads_text_and_what_json_shows_of_it(name: SerdeName) -> None:
    text = {"boolean": "true", "uuid": "00000000-0000-0000-0000-000000000001", "json": "[1]", "bytes": "ab"}
    form = LineFormat(value=name)
    data = form.read(text.get(name.value, "5").encode(), "here").value
    assert data is not None
    from penstock.api.encoding import to_json

    shown = to_json({"value": name.serde.deserialize(data)}).decode()
    assert LineFormat(value=name, as_json=True).read(shown.encode(), "here").value == data
