"""The demo's input and its proof."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from penstock.cli.demo_check import StoreReader, verify
from penstock.cli.demo_corpus import load, sources
from penstock.common.errors import StreamsError, TaskNotReadyError
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import RecordProducer
from penstock.testing.fake_broker import FakeBroker
from penstock.testing.fake_clients import FakeClients
from tests.api.fake import FakeReadSide, client_of

COUNTS = {f"w{number:05}": number for number in range(1, 12_000)}


@pytest.fixture
def read_side() -> FakeReadSide:
    """An application that counted right."""
    fake = FakeReadSide()
    for word, count in COUNTS.items():
        fake.fakes["counts"].put(word, count)
    return fake


def check(read_side: FakeReadSide) -> tuple[bool, str]:
    shown = Console(file=io.StringIO(), width=120)
    with client_of(read_side) as client:
        reader = StoreReader(client, "/v1/applications/word-count/stores/counts")
        equal = verify(reader, COUNTS, shown)
    assert isinstance(shown.file, io.StringIO)
    return equal, shown.file.getvalue()


def test_equal_counts_are_verified_over_all_pages(read_side: FakeReadSide) -> None:
    equal, shown = check(read_side)
    assert equal
    assert "verified: 11,999 words, all equal" in shown


def test_a_wrong_a_missing_and_a_superfluous_count_are_each_shown(read_side: FakeReadSide) -> None:
    store = read_side.fakes["counts"]
    store.put("w00001", 7)
    store.put("surplus", 3)
    del store.rows[b"w11999"]
    equal, shown = check(read_side)
    assert not equal
    assert "w00001: 7 over HTTP, 1 counted directly" in shown
    assert "surplus: 3 over HTTP, None counted directly" in shown
    assert "w11999: None over HTTP, 11999 counted directly" in shown
    assert "3 of 11,999 words differ" in shown


def test_an_answer_that_is_an_error_ends_the_check_with_its_text(read_side: FakeReadSide) -> None:
    read_side.failure = TaskNotReadyError("task 1_0 restores")
    with pytest.raises(StreamsError, match="task 1_0 restores"):
        check(read_side)


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create_topic(NewTopic("lines", 4))
    return broker


@pytest.fixture
def producer(broker: FakeBroker) -> RecordProducer:
    return FakeClients("demo", broker).producer()


@pytest.mark.submission
def test_every_line_of_the_standard_library_is_loaded_under_its_files_name(
    broker: FakeBroker, producer: RecordProducer
) -> None:
    reported: list[int] = []
    lines = load(producer, "lines", reported.append, lambda: False)
    records = broker.records("lines")
    assert lines == reported[-1] == len(records) > 100_000
    sought = b"this.py", b's = """Gur Mra bs Clguba, ol Gvz Crgref'
    assert any((record.key, record.value) == sought for record in records)


def test_loading_ends_early_on_request(producer: RecordProducer) -> None:
    first = next(sources())[1]
    assert load(producer, "lines", lambda _: None, lambda: True) == len(first.splitlines())


def test_nothing_that_was_installed_is_part_of_the_input() -> None:
    assert not [name for name, _ in sources() if "site-packages" in name]
