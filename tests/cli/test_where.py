"""Conditions on records: ``penstock topic read --where``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.where import Condition, headers_as_text, plain
from penstock.common.errors import ConfigError
from penstock.common.windows import Window, Windowed
from penstock.common.written_times import WithoutZone, ms_of_iso
from tests.tiers import examples


@dataclass
class Rec:
    key: Any = "ada"
    value: Any = field(
        default_factory=lambda: {
            "total": 120.5, "items": [{"sku": "a-1", "n": 2}], "tags": ["new", "big"], "note": None, "ok": True,
            "from": {"city": "Köln"},
        }
    )  # fmt: skip
    timestamp: int = 1_795_253_400_000
    partition: int = 3
    offset: int = 41
    headers: Any = field(default_factory=lambda: {"source": "shop", "x-id": "7"})


@pytest.mark.parametrize(
    "text",
    [
        "value.total > 100",
        "100 < value.total <= 120.5",
        "value.total > 100 and partition == 3",
        "value.total > 1000 or offset >= 41",
        "not value.total > 1000",
        "key == 'ada'",
        "key != 'bob'",
        "key in ['bob', 'ada']",
        "key not in ('bob',)",
        "'new' in value.tags",
        "'da' in key",
        "'total' in value",
        "contains(value.tags, 'big')",
        "contains(key, 'ad')",
        "matches(key, '^a.a$')",
        "matches(value.items[0].sku, '[0-9]')",
        "value.items[0].n == 2",
        "value.items[-1].n == 2",
        "value['from'].city == 'Köln'",
        "value.ok",
        "value.ok == true",
        "value.note == null",
        "value.missing is null",
        "value.missing.deeper == None",
        "not (value.missing > 3)",
        "headers.source == 'shop'",
        "headers['x-id'] == '7'",
        "timestamp > '2026-11-01'",
        "'2026-11-01T00:00' < timestamp",
        "timestamp == 1795253400000",
        "value.total > -5",
    ],
)
def test_a_condition_holds(text: str) -> None:
    assert Condition(text)(Rec())


@pytest.mark.parametrize(
    "text",
    [
        "value.total > 1000",
        "value.items[5].n == 2",
        "value.items.sku == 'a-1'",
        "value.note",
        "matches(value.total, '1')",
        "contains(value.note, 'x')",
        "key == null",
        "timestamp < '2026-11-01'",
        "key.length > 0",
    ],
)
def test_a_condition_does_not_hold(text: str) -> None:
    assert not Condition(text)(Rec())


def test_a_time_without_a_zone_is_a_local_one() -> None:
    at = ms_of_iso("2026-11-21T09:30", WithoutZone.LOCAL)
    assert Condition("timestamp == '2026-11-21T09:30'")(Rec(timestamp=at))
    assert Condition("timestamp == '2026-11-21T09:30Z'")(
        Rec(timestamp=int(datetime(2026, 11, 21, 9, 30, tzinfo=UTC).timestamp() * 1000))
    )


def test_values_without_an_order_are_counted_and_not_true() -> None:
    condition = Condition("value.total > '100'")
    assert not condition(Rec())
    assert not condition(Rec(value={"total": None})), "a missing value is no mistake"
    assert (condition.uncompared, condition.first_uncompared) == (1, "a number with text")


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("valu.total > 3", 1, "unknown name 'valu' (similar: value)"),
        ("value.total > 3 and foo", 21, "unknown name 'foo'"),
        ("value.naïve == 'ü' and foo", 24, "unknown name 'foo'"),
        ("('üü' ==\n   foo)", 13, "unknown name 'foo'"),
        ("value.total = 3", None, "'==' compares"),
        ("value.ok && key == 'a'", None, "write 'and', 'or' and 'not'"),
        ("value.tags contains 'new'", None, "write contains(value.text, 'part')"),
        ("value.total + 1 > 3", 1, "arithmetic is not allowed here"),
        ("__import__('os').system('x')", 1, "only contains(text, part) and matches(text, regex) can be called"),
        ("value.x.upper() == 'A'", 1, "only contains(text, part)"),
        ("contains(key)", 1, "contains takes two arguments"),
        ("matches(key, '(')", 14, "this is not a regular expression"),
        ("matches(key, value)", 14, "a regular expression is text in quotes"),
        ("value[key] == 1", 7, "between brackets is the name of a field, in quotes, or a number"),
        ("timestamp > 'yesterday'", 13, "'yesterday' is not a time"),
        ("(lambda: 1)()", None, "only contains(text, part)"),
        ("f'{key}' == 'a'", 1, "an f-string is not allowed"),
        ("key if value else key", 1, "if … else is not allowed"),
        ("[x for x in value]", 1, "ListComp is not allowed"),
        ("value.total >", None, "invalid syntax"),
        ("", None, ""),
    ],
)
def test_a_mistake_is_shown_at_its_place(text: str, column: int | None, what: str) -> None:
    """Mistakes that Python's parser finds have the column that this version of Python says: None here."""
    with pytest.raises(ConfigError) as raised:
        Condition(text)
    first, line, caret = str(raised.value).split("\n")
    at = caret.index("^") - 1
    assert first.startswith(f"--where: column {at}: "), first
    assert column in (None, at)
    assert what in first
    assert line == "  " + text.replace("\n", " ")


def test_a_condition_that_is_too_long_or_too_deep_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most 4,000 characters"):
        Condition("key == 'a' or " * 1000 + "key == 'b'")
    with pytest.raises(ConfigError):
        Condition("(" * 1999 + "key" + ")" * 1999)
    with pytest.raises(ConfigError, match="nested more than 50 deep"):
        Condition("not " * 60 + "key")


@settings(max_examples=examples(200))
@given(
    st.text(max_size=40)
    | st.lists(
        st.sampled_from(["key", "value.total", "==", ">", "in", "and", "not", "(", ")", "[0]", "'a'", "3", "null"]),
        max_size=8,
    ).map(" ".join)
)
def test_any_text_is_a_condition_or_an_error_of_configuration(text: str) -> None:
    with suppress(ConfigError):
        Condition(text)(Rec())


def test_objects_are_seen_as_json_shows_them() -> None:
    @dataclass
    class Order:
        total: float
        at: datetime

    order = plain(Order(3.5, datetime(2026, 11, 21, tzinfo=UTC)))
    assert Condition("value.total == 3.5 and matches(value.at, '^2026-11-21T')")(Rec(value=order))
    windowed = plain(Windowed("ada", Window(0, 60_000)))
    assert Condition("key.key == 'ada' and key.window.end == 60000")(Rec(key=windowed))
    assert plain(object()).startswith("<object object"), "what has no JSON form is text"


def test_of_headers_with_the_same_name_the_last_counts() -> None:
    assert headers_as_text((("a", b"1"), ("a", b"2"), ("b", None))) == {"a": "2", "b": None}
