"""Answers of stores of every kind from outside, over HTTP and by Python's views, compared with the test driver's.

All of it except Ray and Kafka is real: stores, tasks, stream loops, the read side, the HTTP API.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

import penstock as ps
from penstock.api.schemas import EntriesBody, FoundEntryBody, FoundVersionBody, VersionsBody, WindowsBody
from penstock.cluster.queries.queryable import views_of
from penstock.cluster.queries.store_reader import StoreQuestions, StoreReader
from tests.actors.rig import APPLICATION
from tests.cluster.local_application import LocalApplication, OneLoopTransport

STRING, DAY = ps.Serdes.string(), timedelta(days=1)
STRINGS = ps.Consumed.with_(STRING, STRING)
KINDS = ps.QueryableStoreTypes
KEYS = ["a", "a\0", "ab", "b", "é", "k/1"]
PARTITIONS = 3


def joined(before: str, value: str) -> str:
    return before + value


def topology() -> ps.Topology:
    builder = ps.StreamsBuilder()
    by_key = builder.stream("in", STRINGS).group_by_key()
    by_key.reduce(joined, ps.Materialized.as_("all"))
    windows = ps.TimeWindows.of_size_with_no_grace(10_000).advance_by(5_000)
    by_key.windowed_by(windows).reduce(joined, ps.Materialized.as_("windows").with_retention(DAY))
    sessions = ps.SessionWindows.of_inactivity_gap_with_no_grace(2_000)
    by_key.windowed_by(sessions).reduce(joined, ps.Materialized.as_("sessions").with_retention(DAY))
    kept: ps.Materialized[str, str] = ps.Materialized.as_(
        ps.Stores.persistent_versioned_key_value_store("versions", DAY)
    )
    builder.table("prices", STRINGS, kept)
    builder.global_table("users", STRINGS, ps.Materialized.as_("users"))
    return builder.build()


def records(random: Random, count: int) -> list[tuple[str, str, str, int]]:
    """Returns records as (topic, key, value, timestamp), some late, but none too late for the windows."""
    made, now = [], 100_000
    for number in range(count):
        now += random.randrange(3000)
        made.append(("in", random.choice(KEYS), f"<{number}>", now))
        made.append(("prices", random.choice(KEYS), f"{number}", max(now - random.choice([0, 0, 9000]), 0)))
    return made


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalApplication]:
    it = LocalApplication(tmp_path, topology(), ("in", "prices", "users"), PARTITIONS)
    monkeypatch.setattr("ray.get_actor", lambda *_: it)
    yield it
    it.close()


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(
        transport=OneLoopTransport(APPLICATION), base_url=f"http://localhost/v1/applications/{APPLICATION}/stores"
    ) as client:
        yield client


@pytest.fixture
def reader() -> Iterator[StoreReader]:
    reader = StoreReader(APPLICATION)
    yield reader
    reader.close()


class Both:
    """The application and the test driver with the same records."""

    def __init__(self, application: LocalApplication, reader: StoreReader, seed: int, committed_share: float) -> None:
        print("seed", seed)
        self.random = Random(seed)
        self.application, self.reader = application, reader
        self.driver = ps.TopologyTestDriver(topology())
        made = records(self.random, 120)
        # Each partition has a stream time of its own, so records that are late for one key are not for another.
        for number, (topic, key, value, timestamp) in enumerate(made):
            application.write(topic, key, value, timestamp)
            self.driver.pipe(topic, key.encode(), value.encode(), timestamp)
            if number == int(committed_share * len(made)):
                application.settle()
                application.commit()
        application.settle()

    def view(self, name: str, kind: Any) -> Any:
        questions = StoreQuestions(self.reader, name, None, 1.0)
        builder = self.application.topology.store_builders[name]
        return kind.of(builder.kind, views_of(builder), questions)

    def store(self, name: str) -> Any:
        return self.driver.get_state_store(name)


def by_bytes(rows: Iterator[tuple[ps.Windowed[str], Any]]) -> list[tuple[ps.Windowed[str], Any]]:
    """Sorts rows as queries do: by the bytes of key and window. Here start and end have the same order."""
    return sorted(rows, key=lambda row: row[0].key.encode() + row[0].window.end.to_bytes(8, "big"))


@pytest.mark.parametrize("committed_share", [0.0, 0.5, 2.0])
def test_windows_from_outside_are_those_that_a_processor_sees(
    application: LocalApplication, reader: StoreReader, committed_share: float
) -> None:
    it = Both(application, reader, 7, committed_share)
    view, inside = it.view("windows", KINDS.window_store()), it.store("windows")
    stamped = it.view("windows", KINDS.timestamped_window_store())
    everything = by_bytes((key, value.value) for key, value in inside.all())
    assert len(everything) > 100
    assert list(view.all()) == everything
    assert list(view.backward_all()) == everything[::-1]
    assert by_bytes(stamped.all()) == by_bytes(inside.all())
    for _ in range(20):
        begin, end = sorted(it.random.sample(range(90_000, 300_000), 2))
        key, low, high = it.random.choice(KEYS), *sorted(it.random.sample(KEYS, 2), key=str.encode)
        of_key = [(start, value.value) for start, value in inside.fetch(key, begin, end)]
        assert list(view.fetch(key, begin, end)) == of_key
        assert list(view.backward_fetch(key, time_from=begin, time_to=end)) == of_key[::-1]
        for start, value in of_key:
            assert view.fetch(key, start) == view.fetch(key=key, time=start) == value
        between = by_bytes((key, value.value) for key, value in inside.fetch(low, high, begin, end))
        assert list(view.fetch(low, high, begin, end)) == between
        assert list(view.backward_fetch(low, high, begin, end)) == between[::-1]
        times = by_bytes((key, value.value) for key, value in inside.fetch_all(begin, end))
        assert list(view.fetch_all(begin, end)) == times
        assert list(view.backward_fetch_all(begin, end)) == times[::-1]
    assert view.fetch("nobody", 100_000) is None


@pytest.mark.parametrize("committed_share", [0.0, 0.5, 2.0])
def test_sessions_from_outside_are_those_that_a_processor_sees(
    application: LocalApplication, reader: StoreReader, committed_share: float
) -> None:
    it = Both(application, reader, 8, committed_share)
    view, inside = it.view("sessions", KINDS.session_store()), it.store("sessions")
    everything = by_bytes(inside.fetch(None, None))
    assert len(everything) > 20
    assert list(view.fetch(None, None)) == everything
    assert list(view.backward_fetch(key_from=None, key_to=None)) == everything[::-1]
    for _ in range(20):
        end, start = it.random.sample(range(90_000, 300_000), 2)
        key, low, high = it.random.choice(KEYS), *sorted(it.random.sample(KEYS, 2), key=str.encode)
        of_key = list(inside.fetch(key))
        assert list(view.fetch(key)) == of_key
        assert list(view.backward_fetch(key)) == of_key[::-1]
        found = list(inside.find_sessions(key, end, start))
        assert list(view.find_sessions(key, end, latest_session_start=start)) == found
        assert list(view.backward_find_sessions(key, end, start)) == found[::-1]
        assert list(view.find_sessions(low, high, end, start)) == by_bytes(inside.find_sessions(low, high, end, start))
        for session, value in of_key:
            assert view.fetch_session(key, *session.window) == value
            assert view.fetch_session(key, session.window.start, session.window.end + 1) is None


@pytest.mark.parametrize("committed_share", [0.0, 0.5, 2.0])
def test_versions_from_outside_are_those_that_a_processor_sees(
    application: LocalApplication, reader: StoreReader, committed_share: float
) -> None:
    it = Both(application, reader, 9, committed_share)
    view, inside = it.view("versions", KINDS.versioned_key_value_store()), it.store("versions")
    for key in KEYS:
        assert view.get(key) == inside.get(key)
        history = list(view.history(key))
        assert len(history) > 5
        assert history[-1] == inside.get(key)
        assert list(view.history(key, descending=True)) == history[::-1]
        for version in history:
            assert view.get(key, version.timestamp) == inside.get(key, version.timestamp) == version
            assert next(view.history(key, version.timestamp, version.timestamp)) == version
    assert view.get("nobody") is None
    assert list(view.history("nobody")) == []


@pytest.mark.parametrize("committed_share", [0.0, 0.5, 2.0])
def test_entries_from_outside_are_those_that_a_processor_sees(
    application: LocalApplication, reader: StoreReader, committed_share: float
) -> None:
    it = Both(application, reader, 10, committed_share)
    view, inside = it.view("all", KINDS.key_value_store()), it.store("all")
    stamped = it.view("all", KINDS.timestamped_key_value_store())
    everything = list(inside.all())
    assert list(stamped.all()) == everything
    assert list(stamped.reverse_all()) == everything[::-1]
    assert {key: stamped.get(key) for key in KEYS} == dict(everything)
    values = [(key, value.value) for key, value in everything]
    assert list(view.all()) == values
    assert view.get_many([*KEYS, "nobody"]) == dict(values)
    for one in ("ada", b"ada"):
        with pytest.raises(TypeError, match=rf"get_many takes several keys, not {one!r} .*: write \[{one!r}\]"):
            view.get_many(one)
    assert list(view.range("a", "b")) == [pair for pair in values if "a" <= pair[0] <= "b"]
    assert list(view.reverse_range("a", None)) == [pair for pair in values[::-1] if pair[0] >= "a"]
    assert list(view.prefix_scan(b"a")) == [pair for pair in values if pair[0].startswith("a")]


def pages(client: httpx.Client, path: str, **parameters: Any) -> list[Any]:
    """Returns all rows, read three at a time."""
    rows: list[Any] = []
    asked = {"limit": 3, **parameters}
    while True:
        answer = client.get(path, params=asked)
        assert answer.status_code == 200, answer.text
        rows += answer.json()["entries"]
        assert len(answer.json()["entries"]) <= 3
        if answer.json()["cursor"] is None:
            return rows
        asked["cursor"] = answer.json()["cursor"]


def test_windows_over_http_have_their_start_and_end_in_ms_and_iso(
    application: LocalApplication, client: httpx.Client
) -> None:
    for key, value, timestamp in (
        ("a", "x", 1_700_000_001_000),
        ("a", "y", 1_700_000_012_345),
        ("b", "z", 1_700_000_000_000),
    ):
        application.write("in", key, value, timestamp)
    application.settle()
    answer = client.get("windows/windows/a", params={"time_from": "2023-11-14T22:13:20Z", "limit": 1})
    WindowsBody.model_validate(answer.json())
    assert answer.json()["entries"] == [
        {
            "key": "a",
            "value": "x",
            "timestamp": 1_700_000_001_000,
            "window": {
                "start": 1_700_000_000_000,
                "end": 1_700_000_010_000,
                "start_time": "2023-11-14T22:13:20.000Z",
                "end_time": "2023-11-14T22:13:30.000Z",
            },
        }
    ]
    assert answer.json()["cursor"] is not None

    def starts(path: str, **parameters: Any) -> list[tuple[str, int]]:
        rows = pages(client, path, **parameters)
        return [(row["key"], row["window"]["start"] - 1_700_000_000_000) for row in rows]

    of_a = [("a", -5000), ("a", 0), ("a", 5000), ("a", 10_000)]
    assert starts("windows/windows/a") == of_a
    assert starts("windows/windows/a", order="desc") == of_a[::-1]
    assert starts("windows/windows/a", time_from=1_700_000_000_000, time_to="2023-11-14T23:13:25+01:00") == of_a[1:3]
    assert starts("windows/windows") == [*of_a, ("b", -5000), ("b", 0)]
    assert starts("windows/windows", order="desc", time_to=1_700_000_000_000) == [
        ("b", 0), ("b", -5000), ("a", 0), ("a", -5000),
    ]  # fmt: skip
    assert starts("windows/windows", **{"from": "b", "to": "c"}) == [("b", -5000), ("b", 0)]
    assert starts("windows/windows/nobody") == []


def test_sessions_over_http(application: LocalApplication, client: httpx.Client) -> None:
    for key, value, timestamp in (("a", "x", 1000), ("a", "y", 2000), ("a", "z", 9000), ("b", "w", 5000)):
        application.write("in", key, value, timestamp)
    application.settle()
    answer = client.get("sessions/sessions/a")
    WindowsBody.model_validate(answer.json())
    first = answer.json()["entries"][0]
    assert (first["value"], first["timestamp"], first["window"]["start"], first["window"]["end"]) == (
        "xy",
        None,
        1000,
        2000,
    )
    assert first["window"]["end_time"] == "1970-01-01T00:00:02.000Z"

    def values(path: str, **parameters: Any) -> list[str]:
        return [row["value"] for row in pages(client, path, **parameters)]

    assert values("sessions/sessions/a", earliest_end=2001) == ["z"]
    assert values("sessions/sessions/a", latest_start="1970-01-01T00:00:01Z") == ["xy"]
    assert values("sessions/sessions", order="desc") == ["w", "z", "xy"]
    assert values("sessions/sessions", **{"from": "b"}) == ["w"]


def test_versions_over_http(application: LocalApplication, client: httpx.Client) -> None:
    for value, timestamp in (("1", 1000), ("2", 2000), (None, 3000), ("4", 4000)):
        application.write("prices", "k/1", value, timestamp)
    application.settle()
    latest = client.get("versions/versions/k%2F1").json()
    FoundVersionBody.model_validate(latest)
    assert (latest["value"], latest["timestamp"], latest["valid_to"]) == ("4", 4000, None)
    before = client.get("versions/versions/k%2F1", params={"as_of": "1970-01-01T00:00:02.500Z"}).json()
    assert (before["value"], before["timestamp"], before["valid_to"]) == ("2", 2000, 3000)
    absent = client.get("versions/versions/k%2F1?as_of=3500")
    assert (absent.status_code, absent.json()["type"]) == (404, "urn:penstock:problem:absent-key")
    VersionsBody.model_validate(client.get("versions/history/k%2F1").json())
    values = [(row["value"], row["valid_to"]) for row in pages(client, "versions/history/k%2F1")]
    assert values == [("1", 2000), ("2", 3000), ("4", None)]
    of_time = pages(client, "versions/history/k%2F1", time_from=2500, time_to=3999, order="desc")
    assert [row["value"] for row in of_time] == ["2"]


def test_ranges_over_http_go_backwards_and_by_prefix(application: LocalApplication, client: httpx.Client) -> None:
    for key in KEYS:
        application.write("in", key, "x", 1000)
    application.settle()

    def keys(**parameters: Any) -> list[str]:
        return [row["key"] for row in pages(client, "all/range", **parameters)]

    in_order = sorted(KEYS, key=str.encode)
    assert keys() == in_order
    assert keys(order="desc") == in_order[::-1]
    assert keys(order="desc", to="b") == ["b", "ab", "a\0", "a"]
    assert keys(prefix="a") == ["a", "a\0", "ab"]
    assert keys(prefix="a", order="desc") == ["ab", "a\0", "a"]
    assert keys(prefix="é") == ["é"]
    EntriesBody.model_validate(client.get("all/range").json())
    FoundEntryBody.model_validate(client.get("all/keys/ab").json())


OTHER_KINDS = [
    ("windows/keys/a", "KeyQuery", "timestamped window", ["GET …/windows/{key}", "GET …/windows"]),
    ("windows/range", "RangeQuery", "timestamped window", ["GET …/windows/{key}", "GET …/windows"]),
    ("windows/approximate-count", "CountQuery", "timestamped window", ["GET …/windows/{key}", "GET …/windows"]),
    ("windows/sessions/a", "SessionQuery", "timestamped window", ["GET …/windows/{key}", "GET …/windows"]),
    ("sessions/windows/a", "WindowKeyQuery", "session", ["GET …/sessions/{key}", "GET …/sessions"]),
    ("versions/keys/a", "KeyQuery", "versioned", ["GET …/versions/{key}", "GET …/history/{key}"]),
    ("versions/windows", "WindowRangeQuery", "versioned", ["GET …/versions/{key}", "GET …/history/{key}"]),
    (
        "all/versions/a",
        "VersionedKeyQuery",
        "timestamped key-value",
        ["GET …/keys/{key}", "POST …/keys:batch", "GET …/range", "GET …/range?prefix=", "GET …/approximate-count"],
    ),
]


def test_a_question_for_another_kind_of_store_names_the_kind_and_where_to_ask(
    application: LocalApplication, client: httpx.Client
) -> None:
    for path, asked, kind, routes in OTHER_KINDS:
        answer = client.get(path)
        assert answer.status_code == 400, path
        problem = answer.json()
        assert problem["type"] == "urn:penstock:problem:unknown-query-type"
        store = f"store '{path.split('/')[0]}' is a {kind} store"
        assert problem["detail"].startswith(f"{store} and does not answer {asked}; it answers: ")
        assert problem["routes"] == routes


def test_a_batch_of_keys_for_a_window_store_names_the_kind(application: LocalApplication, client: httpx.Client) -> None:
    answer = client.post("windows/keys:batch", json={"keys": ["a"]})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:penstock:problem:unknown-query-type")


WRONG = [
    ("windows/windows/a?time_from=now", 422, "query/time_from"),
    ("windows/windows/a?time_from=-1", 422, "query/time_from"),
    ("windows/windows/a?time_to=2026-01-31T12:00:00", 422, "query/time_to"),
    ("windows/windows?time_to=1960-01-31T12:00:00Z", 422, "query/time_to"),
    ("windows/windows?time_to=9223372036854775808", 422, "query/time_to"),
    (f"windows/windows?time_to={'9' * 5000}", 422, "query/time_to"),
    ("windows/windows?time_from=7&time_to=6", 400, "invalid-range"),
    ("windows/windows?from=b&to=a", 400, "invalid-range"),
    ("windows/windows?order=up", 422, "query/order"),
    ("windows/windows?limit=0", 422, "query/limit"),
    ("windows/windows?limit=10001", 422, "query/limit"),
    ("windows/windows?at=7", 422, "query/at"),
    ("windows/windows/a?cursor=AAAA", 400, "invalid-cursor"),
    ("windows/windows/a?cursor=~", 400, "invalid-cursor"),
    ("windows/windows?cursor=_____________________w==", 400, "invalid-cursor"),
    ("sessions/sessions/a?earliest_end=x", 422, "query/earliest_end"),
    ("sessions/sessions?cursor=AAAA", 400, "invalid-cursor"),
    ("versions/versions/a?as_of=x", 422, "query/as_of"),
    ("versions/versions/a?as_of=1&limit=3", 422, "query/limit"),
    ("versions/history/a?cursor=AAAA", 400, "invalid-cursor"),
    ("versions/history/a?time_from=2&time_to=1", 400, "invalid-range"),
    ("all/range?prefix=a&from=a", 422, "query/prefix"),
    ("all/keys/a?wait_ms=10001", 422, "query/wait_ms"),
    ("all/keys/a?wait_ms=-1", 422, "query/wait_ms"),
    ("windows/windows?wait_ms=10001", 422, "query/wait_ms"),
    ("all/keys/a?not_older_than=7", 422, "query/not_older_than"),
    ("all/keys/a?not_older_than={", 422, "query/not_older_than"),
    ('all/keys/a?not_older_than={"in":{"0":-1}}', 422, "query/not_older_than"),
    ('all/keys/a?not_older_than={"in":{"x":1}}', 422, "query/not_older_than"),
    ('all/keys/a?not_older_than={"in":{"0":1.5}}', 422, "query/not_older_than"),
    ('all/keys/a?not_older_than={"in":{"99999999999":1}}', 422, "query/not_older_than"),
    ('windows/windows?not_older_than={"in":7}', 422, "query/not_older_than"),
]


def test_a_malformed_position_is_an_error_that_shows_the_form(client: httpx.Client) -> None:
    detail = client.get("all/keys/a?not_older_than=7").json()["detail"]
    assert 'Not a position, such as {"orders":{"0":17}}' in detail


def test_a_wrong_request_is_refused_with_the_parameter_that_is_wrong(
    application: LocalApplication, client: httpx.Client
) -> None:
    for path, status, where in WRONG:
        answer = client.get(path)
        assert answer.status_code == status, (path, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        if status == 422:
            assert [error["where"] for error in answer.json()["errors"]] == [where], path
        else:
            assert answer.json()["type"].endswith(where), path


def test_a_view_of_another_kind_is_refused_with_those_that_fit(
    application: LocalApplication, reader: StoreReader
) -> None:
    builders = application.topology.store_builders
    for name, wrong, fitting in (
        ("windows", KINDS.key_value_store(), r"window_store\(\) or QueryableStoreTypes.timestamped_window_store\(\)"),
        ("sessions", KINDS.window_store(), r"session_store\(\)"),
        ("versions", KINDS.key_value_store(), r"versioned_key_value_store\(\)"),
        ("all", KINDS.session_store(), r"key_value_store\(\) or QueryableStoreTypes.timestamped_key_value_store\(\)"),
    ):
        kind: Any = wrong
        with pytest.raises(ps.UnknownQueryError, match=f"ask for it as QueryableStoreTypes.{fitting}, not"):
            kind.of(builders[name].kind, views_of(builders[name]), StoreQuestions(reader, name, None, 1.0))


def test_an_incomplete_query_is_refused_with_the_form_of_a_complete_one() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", STRINGS).to("out", ps.Produced.with_(STRING, STRING))
    app = ps.KafkaStreams(builder.build(), {"application.id": "app"})
    half: Any = ps.StateQueryRequest.in_store("all")
    with pytest.raises(TypeError, match=r"query takes a request .*with_query\(query\).*not InStore\(name='all'\)"):
        app.query(half)
    with pytest.raises(TypeError, match=r"with_query needs a query, such as KeyQuery\('k'\), not 'k' \(str\)"):
        half.with_query("k")
    place: Any = {"in": {0: 1}}
    with pytest.raises(TypeError, match=r"PositionBound\.at needs a Position"):
        ps.PositionBound.at(place)
