"""Window, session and versioned stores asked from outside: Ray, Kafka, RocksDB and a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

import penstock as ps
from penstock.api.kafka_streams import KafkaStreams
from penstock.api.schemas import FoundVersionBody, VersionsBody, WindowsBody
from penstock.cluster.client.control import end_actors
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from tests.cluster.asking import patient_client
from tests.cluster.conftest import LONG, STRING
from tests.cluster.settled import until_settled

KEYS = [f"user-{number}" for number in range(20)]
BASE = 1_700_000_000_000
DAY = timedelta(days=1)
KINDS = ps.QueryableStoreTypes


class Clicks:
    """Clicks of users by window and by session, and the versions of their names."""

    def __init__(self, broker: str, name: str, state_dir: Path) -> None:
        self.id, self.broker, self.state_dir = name, broker, state_dir
        self.clicks, self.names = f"{name}-clicks", f"{name}-names"
        self.clients = ConfluentClients(broker, name)
        self.clients.admin().create_topics([NewTopic(self.clicks, 4), NewTopic(self.names, 4)])

    def app(self) -> KafkaStreams:
        builder = ps.StreamsBuilder()
        by_user = builder.stream(self.clicks, ps.Consumed.with_(STRING, LONG)).group_by_key()
        windows = ps.TimeWindows.of_size_with_no_grace(10_000)
        by_user.windowed_by(windows).count(ps.Materialized.as_("per-window").with_retention(DAY))
        sessions = ps.SessionWindows.of_inactivity_gap_with_no_grace(3_000)
        by_user.windowed_by(sessions).count(ps.Materialized.as_("per-session").with_retention(DAY))
        kept: ps.Materialized[str, str] = ps.Materialized.as_(
            ps.Stores.persistent_versioned_key_value_store("names", DAY)
        )
        builder.table(self.names, ps.Consumed.with_(STRING, STRING), kept)
        config = {
            "application.id": self.id,
            "bootstrap.servers": self.broker,
            "state.dir": self.state_dir,
            "commit.interval.ms": 200,
            "application.server": "127.0.0.1:0",
        }
        return KafkaStreams(builder.build(), config)

    def send(self) -> ps.Position:
        """Two clicks of a session, and one ten seconds later, of each user, and two names. The position behind them."""
        producer = self.clients.producer()
        for at in (1_000, 2_000, 11_000):
            for number, user in enumerate(KEYS):
                producer.send(self.clicks, user.encode(), LONG.serialize(1), BASE + at + number)
        for at in (0, 5_000):
            for user in KEYS:
                producer.send(self.names, user.encode(), f"{user}/{at}".encode(), BASE + at)
        assert producer.flush(60)
        producer.close()
        consumer = self.clients.consumer()
        partitions = [ps.TopicPartition(topic, number) for topic in (self.clicks, self.names) for number in range(4)]
        ends = consumer.fetch_end_offsets(partitions)
        consumer.close()
        return ps.Position.of((partition, end - 1) for partition, end in ends.items() if end)


@pytest.fixture
def clicks(broker: str, topic_name: Callable[[str], str], tmp_path: Path, ray_cluster: None) -> Iterator[Clicks]:
    it = Clicks(broker, topic_name("clicks"), tmp_path)
    yield it
    end_actors(it.id, find_coordinator(it.id))


def part(position: ps.Position, topic: str) -> ps.Position:
    return ps.Position.from_map({topic: position.get_partition_positions(topic)})


@pytest.mark.submission
def test_windows_sessions_and_versions_are_found_over_http_and_from_python_as_new_as_they_must_be(
    clicks: Clicks,
) -> None:
    with clicks.app() as app:
        until_settled(app)
        sent = clicks.send()
        seen = part(sent, clicks.clicks)
        address = app.status().http_address
        stores = f"{address}/v1/applications/{clicks.id}/stores"
        with patient_client("") as client:
            not_older_than = httpx.Response(200, json=seen.offsets).text
            asked: dict[str, str | int] = {"not_older_than": not_older_than, "wait_ms": 10_000}

            def whole(path: str) -> httpx.Response:
                answer = client.get(f"{stores}/{path}", params={**asked, "limit": 1000})
                assert answer.status_code == 200, answer.text
                return answer

            windows = whole("per-window/windows").json()
            WindowsBody.model_validate(windows)
            assert windows["position"] == {clicks.clicks: {str(n): o for _, n, o in seen}}
            found = [(row["key"], row["window"]["start"] - BASE, row["value"]) for row in windows["entries"]]
            assert found == [(user, *of) for user in sorted(KEYS) for of in ((0, 2), (10_000, 1))]
            assert windows["entries"][0]["window"]["start_time"] == "2023-11-14T22:13:20.000Z"
            sessions = whole("per-session/sessions").json()["entries"]
            assert len(sessions) == 2 * len(KEYS)
            assert {row["value"] for row in sessions if row["window"]["start"] < BASE + 2_000} == {2}
            asked["not_older_than"] = httpx.Response(200, json=part(sent, clicks.names).offsets).text
            history = whole("names/history/user-3").json()
            VersionsBody.model_validate(history)
            assert [row["value"] for row in history["entries"]] == ["user-3/0", "user-3/5000"]
            whole("names/history/user-7")  # in another partition, and asked for below
            then = client.get(f"{stores}/names/versions/user-3", params={"as_of": BASE + 4_999}).json()
            FoundVersionBody.model_validate(then)
            assert (then["value"], then["valid_to"]) == ("user-3/0", BASE + 5_000)
            refused = client.get(f"{stores}/names/keys/user-3")
            assert (refused.status_code, refused.json()["routes"][0]) == (400, "GET …/versions/{key}")
        bound = ps.PositionBound.at(seen)
        view = app.store("per-window", KINDS.window_store(), position_bound=bound, wait_s=10.0)
        assert view.fetch("user-7", BASE) == 2
        with ps.KafkaStreams.connect(clicks.id) as connected:  # as another process does
            assert connected.store("per-window", KINDS.window_store(), position_bound=bound).fetch("user-7", BASE) == 2
        assert list(view.fetch(key="user-7", time_from=BASE, time_to=BASE + 10_000)) == [(BASE, 2), (BASE + 10_000, 1)]
        assert len(list(view.all())) == 2 * len(KEYS)
        by_session = app.store("per-session", KINDS.session_store())
        assert by_session.fetch_session("user-7", BASE + 1_007, BASE + 2_007) == 2
        names = app.store("names", KINDS.versioned_key_value_store())
        assert [record.value for record in names.history("user-7", descending=True)] == ["user-7/5000", "user-7/0"]
        result = app.query(ps.StateQueryRequest.in_store("names").with_query(ps.VersionedKeyQuery("user-7", BASE)))
        assert result.result.value == "user-7/0"
        assert result.position.get_topics() == {clicks.names}
        with pytest.raises(ps.UnknownQueryError, match=r"as QueryableStoreTypes.window_store\(\) or"):
            app.store("per-window")
