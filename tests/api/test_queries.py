"""Queries over HTTP: entries, ranges, counts."""

from __future__ import annotations

import math
import random
import uuid
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import quote

import httpx
import msgspec
import pytest
from pydantic import BaseModel

from penstock.api.encoding import to_json
from penstock.api.schemas import CountBody, EntriesBody, FoundBody, FoundEntryBody, StoresBody
from penstock.common.errors import SerializationError
from tests.api.fake import FakeReadSide
from tests.registry import messages

STORE = "/v1/applications/word-count/stores/counts"


def test_an_entry_is_found_by_its_key(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.fakes["counts"].put("import", 12, 1_700_000_000_000)
    answer = client.get(f"{STORE}/keys/import")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    position = {"words": {"0": 41, "1": 7}}
    assert answer.json() == {"key": "import", "value": 12, "timestamp": 1_700_000_000_000, "position": position}
    FoundEntryBody.model_validate(answer.json())


@pytest.mark.parametrize("key", ["a/b", "/", "ä ß", "?x=1&y#z", "100%", "..a", ""])
def test_any_text_can_be_a_key(client: httpx.Client, read_side: FakeReadSide, key: str) -> None:
    read_side.fakes["counts"].put(key, 1)
    answer = client.get(f"{STORE}/keys/{quote(key, safe='')}")
    assert (answer.status_code, answer.json().get("key")) == (200, key)


def test_a_key_is_read_by_the_serde_of_its_store(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.fakes["by-number"].put(-7, "seven")
    assert client.get("/v1/applications/word-count/stores/by-number/keys/-7").json()["value"] == "seven"


def test_committed_isolation_hides_what_is_not_committed(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.fakes["counts"].put("fresh", 1, committed=False)
    assert client.get(f"{STORE}/keys/fresh").status_code == 200
    assert client.get(f"{STORE}/keys/fresh?isolation=latest").status_code == 200
    assert client.get(f"{STORE}/keys/fresh?isolation=committed").status_code == 404
    assert client.get(f"{STORE}/range?isolation=committed").json()["entries"] == []
    assert client.get(f"{STORE}/approximate-count?isolation=committed").json()["approximate_count"] == 0


def test_many_keys_are_looked_up_in_their_order(client: httpx.Client, read_side: FakeReadSide) -> None:
    for key in "abc":
        read_side.fakes["counts"].put(key, ord(key), 5)
    read_side.fakes["counts"].put("odd", object(), 5)
    answer = client.post(f"{STORE}/keys:batch", json={"keys": ["c", "absent", "a", "c"]})
    assert answer.status_code == 200
    assert answer.json()["entries"] == [
        {"key": "c", "value": 99, "timestamp": 5},
        None,
        {"key": "a", "value": 97, "timestamp": 5},
        {"key": "c", "value": 99, "timestamp": 5},
    ]
    FoundBody.model_validate(answer.json())
    odd = client.post(f"{STORE}/keys:batch", json={"keys": ["a", "odd", "x"]}).json()["entries"]
    assert odd[0]["value"] == 97
    assert "no JSON form" in odd[1]["problem"]
    assert odd[2] is None


def test_a_batch_of_keys_follows_its_isolation(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.fakes["counts"].put("fresh", 1, committed=False)
    asked = {"keys": ["fresh"]}
    assert client.post(f"{STORE}/keys:batch", json=asked).json()["entries"][0]["value"] == 1
    assert client.post(f"{STORE}/keys:batch?isolation=committed", json=asked).json()["entries"] == [None]


def test_a_message_of_protobuf_is_shown_by_its_fields() -> None:
    order = messages.Order(id=1 << 62, item="tea", to=messages.Address(city="Rome"))
    assert to_json([order, messages.Order(id=2), messages.Basket(items=["tea"])]) == (
        b'[{"id":4611686018427387904,"item":"tea","cents":0,"price":0.0,"to":{"city":"Rome"}},'
        b'{"id":2,"item":"","cents":0,"price":0.0},{"items":["tea"]}]'
    )


@pytest.mark.parametrize(
    ("store", "body", "status", "message"),
    [
        ("counts", {"keys": ["k"] * 10_001}, 422, "10000"),
        ("counts", {"keys": "k"}, 422, "list"),
        ("counts", {"key": ["k"]}, 422, "keys"),
        ("counts", {"keys": ["k"], "limit": 3}, 422, "limit"),
        ("by-number", {"keys": ["1", "seven"]}, 400, "'seven'"),
        ("no-store", {"keys": ["k"]}, 404, "no-store"),
    ],
)
def test_a_bad_batch_is_refused_with_the_reason(
    client: httpx.Client, store: str, body: dict[str, object], status: int, message: str
) -> None:
    answer = client.post(f"/v1/applications/word-count/stores/{store}/keys:batch", json=body)
    assert answer.status_code == status
    assert message in answer.text


def test_a_range_includes_both_ends(client: httpx.Client, read_side: FakeReadSide) -> None:
    for key in "abcde":
        read_side.fakes["counts"].put(key, ord(key), 5)
    answer = client.get(f"{STORE}/range?from=b&to=d")
    EntriesBody.model_validate(answer.json())
    assert [entry["key"] for entry in answer.json()["entries"]] == ["b", "c", "d"]
    assert answer.json()["entries"][0] == {"key": "b", "value": ord("b"), "timestamp": 5}
    assert answer.json()["cursor"] is None


def test_the_pages_of_a_range_make_up_the_whole(client: httpx.Client, read_side: FakeReadSide) -> None:
    keys = [f"k{number:03}" for number in range(25)]
    for key in keys:
        read_side.fakes["counts"].put(key, 1)
    seen: list[str] = []
    cursor, pages = "", 0
    while pages < 10:
        page = client.get(f"{STORE}/range?limit=10{cursor}").json()
        seen += [entry["key"] for entry in page["entries"]]
        pages += 1
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert (seen, pages) == (keys, 3)


def test_the_approximate_count_is_a_number(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.fakes["counts"].put("a", 1)
    answer = client.get(f"{STORE}/approximate-count")
    assert CountBody.model_validate(answer.json()).approximate_count == 1


def test_the_stores_are_listed_by_name(client: httpx.Client) -> None:
    answer = client.get("/v1/applications/word-count/stores")
    assert [store.name for store in StoresBody.model_validate(answer.json()).stores] == ["by-number", "counts"]


Point = namedtuple("Point", ["x", "y"])


@dataclass
class Sale:
    item: str
    raw: bytes


class Visit(BaseModel):
    page: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, "a"), b'[1,"a"]'),
        (Point(1, 2), b'{"x":1,"y":2}'),
        (b"\x00\xff", b'"AP8="'),
        (bytearray(b"\x00"), b'"AA=="'),
        (Sale("pen", b"\x01"), b'{"item":"pen","raw":"AQ=="}'),
        (Visit(page="home"), b'{"page":"home"}'),
        ({3}, b"[3]"),
        ({1: (2, b"")}, b'{"1":[2,""]}'),
        (Decimal("1.10"), b'"1.10"'),
        (math.nan, b"null"),
        (uuid.UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
        (None, b"null"),
    ],
)
def test_values_become_json(value: object, text: bytes) -> None:
    assert to_json(value) == text


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


class Order(msgspec.Struct):
    item: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"n": 2**64, "b": b"\x01", "v": Visit(page="x")}, b'{"n":18446744073709551616,"b":"AQ==","v":{"page":"x"}}'),
        (nested(300), b"[" * 300 + b"1" + b"]" * 300),
        (Order("pen"), b'{"item":"pen"}'),
    ],
    ids=["an integer of more than 64 bits", "deep nesting", "a struct"],
)  # fmt: skip
def test_values_that_orjson_refuses_become_json_all_the_same(value: object, text: bytes) -> None:
    assert to_json(value) == text


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({(1, 2): 3}, "{(1, 2): 3}"),
        ("a\ud800", r"'a\ud800'"),
        (nested(100_000), "[[[[[[[...]]]]]]]"),
        (Broken(), "<Broken instance at"),
        ([*map(Decimal, range(100)), object()], "[Decimal('0'), "),
    ],
    ids=["keys of tuples", "broken text", "nesting without end", "a repr that raises", "a long one"],
)
def test_a_row_that_json_cannot_show_is_text_with_the_reason_and_the_others_are_as_ever(
    client: httpx.Client, read_side: FakeReadSide, value: object, shown: str
) -> None:
    fake = read_side.fakes["counts"]
    fake.put("a", 1, 5)
    fake.put("b", value, 6)
    fake.put("c", Point(1, 2**64), 7)
    answer = client.get(f"{STORE}/range")
    assert answer.status_code == 200
    EntriesBody.model_validate(answer.json())
    first, odd, last = answer.json()["entries"]
    assert first == {"key": "a", "value": 1, "timestamp": 5}
    assert last == {"key": "c", "value": [1, 2**64], "timestamp": 7}
    assert (odd["key"], odd["timestamp"]) == ("'b'", 6)
    assert odd["value"].startswith(shown)
    assert len(odd["value"]) < 1000
    assert odd["problem"].startswith("the value has no JSON form")


def test_a_value_without_a_json_form_is_refused_by_its_type() -> None:
    with pytest.raises(SerializationError, match=r"random\.Random"):
        to_json({"generator": random.Random(1)})


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain", "application/json"])
def test_a_body_is_read_as_json_whatever_its_header_calls_it(
    kind: str | None, client: httpx.Client, read_side: FakeReadSide
) -> None:
    read_side.fakes["counts"].put("a", 1)
    headers = {} if kind is None else {"Content-Type": kind}  # curl -d has the second
    answer = client.post(f"{STORE}/keys:batch", content=b'{"keys": ["a"]}', headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["entries"][0]["value"] == 1
