"""Stores that keep headers (KIP-1271). The bytes here are those that Kafka Streams 4.3.1 wrote for the same calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

import penstock as ps
from penstock.common.errors import RecordError
from penstock.common.varints import read_varint, varint
from penstock.common.windows import Window, Windowed
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.rows.header_rows import header_block, read_headers
from tests.tasks.bench import STRINGS, Bench, Row, Sent

SERDES = (ps.Serdes.string(), ps.Serdes.string())
SESSION = Windowed("k", Window(0, 5))
OWN: ps.Headers = (("o", b"11"), ("o", b"12"), ("ü", None), ("e", b""))
SEEN: list[tuple[Any, Any, Any]] = []

KEY_VALUE = ps.Stores.timestamped_key_value_store_with_headers_builder(
    ps.Stores.persistent_key_value_store("kv"), *SERDES
)
WINDOWS = ps.Stores.timestamped_window_store_with_headers_builder(
    ps.Stores.persistent_window_store("w", 300_000, 10), *SERDES
)
SESSIONS = ps.Stores.session_store_with_headers_builder(ps.Stores.persistent_session_store("s", 300_000), *SERDES)


class Write(ps.Processor[str, str, str, str]):
    """Puts each value 100 ms later into all three stores; some words do something else."""

    @override
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.stores = [context.get_state_store(name) for name in ("kv", "w", "s")]

    @override
    def process(self, record: ps.Record[str, str]) -> None:
        kv, w, s = self.stores
        key, value = record.key, record.value
        SEEN.append((kv.get(key), w.fetch(key, 0), s.fetch_session(key, 0, 5)))
        if value == "del":
            kv.put(key, None)
            w.put(key, None, 0)
            s.put(SESSION, None)
        elif value == "remove":
            kv.delete(key)
            s.remove(SESSION)
        elif value == "nullvalue":
            kv.put(key, ps.ValueTimestampHeaders(None, 7, (("n", b"1"),)))
            w.put(key, ps.ValueTimestampHeaders(None, 7, (("n", b"1"),)), 0)
        else:
            headers = OWN if value.startswith("own") else () if value.startswith("none") else record.headers
            kv.put(key, ps.ValueTimestampHeaders(value, record.timestamp + 100, headers))
            w.put(key, ps.ValueTimestampHeaders(value, record.timestamp + 100, headers), 0)
            s.put(SESSION, ps.AggregationWithHeaders(value, headers))


def bench(caching: bool = False, processor: Callable[[], ps.Processor[Any, Any, Any, Any]] = Write) -> Bench:
    builder = ps.StreamsBuilder()
    for store in (KEY_VALUE, WINDOWS, SESSIONS):
        builder.add_state_store(store.with_caching_enabled() if caching else store)
    builder.stream("in", STRINGS).process(processor, "kv", "w", "s")
    SEEN.clear()
    return Bench(builder)


def feed(on: Bench, *values: str) -> list[Sent]:
    """Each with its number, from 1, as time and in its only header; what the changelogs got."""
    sent: list[Sent] = []
    for number, value in enumerate(values, 1):
        sent += on.feed("in", Row("k", value, number, [("h", str(number).encode())]))
    return sent


WORDS = ("a1", "own2", "none3", "del", "a5", "remove", "a7", "nullvalue", "z")
WRITTEN = (
    (b"a1", 1, (("h", b"1"),)),
    (b"own2", 2, OWN),
    (b"none3", 3, ()),
    (None, 4, (("h", b"4"),)),
    (b"a5", 5, (("h", b"5"),)),
    (None, 6, (("h", b"6"),)),
    (b"a7", 7, (("h", b"7"),)),
    (None, 8, (("h", b"8"),)),
    (b"z", 9, (("h", b"9"),)),
)
"""Value, time and headers of the key-value store's changelog in Kafka Streams; each value has 100 ms more."""


def logged(sent: list[Sent], store: str) -> list[tuple[bytes | None, int, tuple[Any, ...]]]:
    topic = f"app-{store}-changelog"
    return [(each.value, each.timestamp, tuple(each.headers or ())) for each in sent if each.topic == topic]


def test_the_changelog_has_the_headers_and_a_deletion_those_of_the_record() -> None:
    sent = feed(bench(), *WORDS)
    later = [(value, time if value is None else time + 100, headers) for value, time, headers in WRITTEN]
    assert logged(sent, "kv") == later
    assert logged(sent, "w") == [each for number, each in enumerate(later) if number != 5]  # windows have no delete
    assert logged(sent, "s") == [each for number, each in enumerate(WRITTEN) if number != 7]


def test_rows_are_headers_timestamp_and_value_to_the_byte() -> None:
    on = bench()
    feed(on, *["a"] * 10, "z")
    on.commit()
    rows = {
        name: [row for key, row in on.stores.store(name).scan(None, None) if key != b"\xffprogress"]
        for name in ("kv", "w", "s")
    }
    assert [row.hex() for row in rows["kv"]] == ["0c020268043131000000000000006f7a"]
    assert [row.hex() for row in rows["w"]] == ["0c020268043131000000000000006f7a"]
    assert [row.hex() for row in rows["s"]] == ["0c0202680431317a"]


@pytest.mark.parametrize("caching", [False, True], ids=["uncached", "cached"])
def test_a_processor_gets_back_what_it_put_before_and_after_a_commit(caching: bool) -> None:
    on = bench(caching)
    feed(on, "own")
    on.commit()
    on.state_manager.forget_objects()
    feed(on, "none", "del", "x")
    kept = ps.ValueTimestampHeaders("own", 101, OWN)
    assert SEEN[1] == (kept, kept, ps.AggregationWithHeaders("own", OWN))
    bare = ps.ValueTimestampHeaders("none", 101, ())
    assert SEEN[2] == (bare, bare, ps.AggregationWithHeaders("none", ()))
    assert SEEN[3] == (None, None, None)


def test_a_cached_store_writes_the_last_update_of_each_commit_with_its_headers() -> None:
    on = bench(caching=True)
    assert feed(on, "a1", "a2") == []
    assert logged(on.commit(), "kv") == [(b"a2", 102, (("h", b"2"),))]
    feed(on, "a3", "del")
    sent = on.commit()
    assert [logged(sent, name) for name in ("kv", "w", "s")] == [[(None, 2, (("h", b"2"),))]] * 3


def test_a_restart_brings_the_headers_back_from_the_changelog() -> None:
    before = bench()
    sent = feed(before, "own", "a2", "own")
    after = bench()
    for name in ("kv", "w", "s"):
        records = [each for each in sent if each.topic == f"app-{name}-changelog"]
        after.state_manager.restore(
            name,
            [each.key for each in records],
            [each.value for each in records],
            [each.timestamp for each in records],
            len(records),
            [each.headers for each in records],
        )
    feed(after, "x")
    kept = ps.ValueTimestampHeaders("own", 103, OWN)
    assert [(kept, kept, ps.AggregationWithHeaders("own", OWN))] == SEEN


def test_a_store_that_had_no_headers_is_restored_into_the_new_form(tmp_path: Any) -> None:
    plain = ps.Stores.timestamped_key_value_store_builder(ps.Stores.persistent_key_value_store("kv"), *SERDES)
    stores = open_task_stores(tmp_path, [plain])
    batch = stores.new_batch()
    batch.put("kv", b"k", bytes(8) + b"v")
    stores.write(batch, {"kv": 1})
    stores.close()
    stores = open_task_stores(tmp_path, [KEY_VALUE])
    assert (stores.changelog_offset("kv"), stores.store("kv").get(b"k")) == (None, None)
    stores.close()


class Wrong(Write):
    """Puts the object that the word selects into the key-value store, or the session store."""

    @override
    def process(self, record: ps.Record[str, str]) -> None:
        kv, w, s = self.stores
        match record.value:
            case "plain":
                kv.put("k", "v")
            case "timestamped":
                w.put("k", ps.ValueAndTimestamp("v", 1), 0)
            case "session":
                s.put(SESSION, "v")
            case "negative":
                kv.put("k", ps.ValueTimestampHeaders("v", -1))
            case "header":
                kv.put("k", ps.ValueTimestampHeaders("v", 1, [("h", "text")]))  # type: ignore[list-item]  # on purpose


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("plain", "store kv keeps headers: put ValueTimestampHeaders(value, timestamp, headers), not 'v'"),
        ("timestamped", "store w keeps headers: put ValueTimestampHeaders"),
        ("session", "store s keeps headers: put AggregationWithHeaders(aggregation, headers), not 'v'"),
        ("negative", "a timestamp may not be negative: -1 ms"),
        ("header", "a header is (key, value), a str and bytes or None, not ('h', 'text')"),
    ],
)
def test_an_object_that_is_no_value_with_headers_is_refused_by_name(word: str, message: str) -> None:
    with pytest.raises(RecordError) as refused:
        feed(bench(processor=Wrong), word)
    assert message in str(refused.value)


def test_the_program_of_the_page_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "HEADERS.md"
    (program,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    exec(compile(program, str(page), "exec"), {"__name__": "page"})


@pytest.mark.parametrize(
    ("number", "written"), [(0, "00"), (-1, "01"), (1, "02"), (64, "8001"), (300, "d804"), (2**31 - 1, "feffffff0f")]
)
def test_numbers_are_zigzag_varints(number: int, written: str) -> None:
    assert varint(number).hex() == written
    assert read_varint(b"x" + varint(number) + b"y", 1) == (number, 1 + len(written) // 2)


@pytest.mark.parametrize("headers", [(), OWN, (("k", b"x" * 300),), tuple((f"h{n}", None) for n in range(70))])
def test_headers_come_back_from_their_block(headers: ps.Headers) -> None:
    block = header_block(headers)
    assert read_headers(block + b"rest") == (headers, len(block))
    assert header_block((("k", b"x"),)).hex() == "0a02026b0278"
