"""Keys of queries: read and written by the serdes of the store and of its source topic; actors are stand-ins."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster.queries.queries import StateQueries
from penstock.cluster.status import ApplicationState
from penstock.common.errors import (
    ConfigError,
    SerializationError,
)
from penstock.common.murmur2 import partition_for
from penstock.common.serdes import Serde, Serdes
from penstock.state.queries import KeyQuery
from tests.cluster.fake_actors import PARTITIONS, WORDS, FakeCoordinator, all_pages, ask, pickled
from tests.cluster.fake_actors import coordinator as coordinator


def test_a_key_that_the_serde_refuses_names_store_and_serde(coordinator: FakeCoordinator) -> None:
    with pytest.raises(
        SerializationError, match=r"store 'counts': key: the serde string cannot write 7 \(int\): a str"
    ):
        ask(lambda queries: queries.find_row("counts", KeyQuery(7)))


def test_a_key_is_read_where_the_program_cannot_be(coordinator: FakeCoordinator) -> None:
    """Only the serde is sent: a serde that comes with penstock needs none of the user's code."""
    assert b"fake_actors" not in coordinator.pickled_serdes["counts"]
    assert ask(lambda queries: queries.key_serde("counts")) is Serdes.string()


def test_a_key_serde_whose_code_is_not_here_is_reported(
    coordinator: FakeCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far_away.py").write_text("def read(data):\n    return data\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("far_away")
    coordinator.pickled_serdes["counts"] = pickled(Serde("far", bytes, module.read))
    monkeypatch.delitem(sys.modules, "far_away")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    with pytest.raises(ConfigError, match=r"store 'counts' cannot be used here.*No module named 'far_away'"):
        ask(lambda queries: queries.find_row("counts", KeyQuery(b"x")))


class OfItsTopic(Serde[str]):
    """Writes the name of its topic in front of a key."""

    def bind(self, topic: str, part: str) -> Serde[str]:
        start = f"{topic} {part} "
        return Serde(start, lambda text: (start + text).encode(), lambda data: data.decode().removeprefix(start))


def test_a_key_is_serialised_for_its_store_and_routed_by_the_bytes_it_has_in_the_source_topic(
    coordinator: FakeCoordinator,
) -> None:
    """Producers of the source topic have placed the key by the bytes that it has there, as in Kafka Streams."""
    coordinator.pickled_serdes["counts"] = pickled(OfItsTopic("of its topic", str.encode, bytes.decode))
    for word in WORDS:
        ask(lambda queries, word=word: queries.find_row("counts", KeyQuery(word)))  # type: ignore[misc]  # mypy infers no default
    asked = [query for actor in coordinator.actors.values() for call in actor.calls for query in call]
    assert {(query.query, query.task_id.partition) for query in asked} == {
        (KeyQuery(f"app-counts-changelog key {word}".encode()), partition_for(f"in key {word}".encode(), PARTITIONS))
        for word in WORDS
    }


@pytest.mark.parametrize(
    ("produced", "placed"),
    [
        (Serdes.json(), lambda word: f'"{word}"'.encode()),
        (Serdes.long(), str.encode),  # refuses text: a processor has made the keys of the store
        (None, str.encode),
    ],
)
def test_a_key_is_looked_up_where_the_serde_of_its_source_topic_puts_it(
    coordinator: FakeCoordinator, produced: Serde[Any] | None, placed: Callable[[str], bytes]
) -> None:
    coordinator.pickled_serdes["counts"] = pickled(Serdes.string(), produced)
    for word in WORDS:
        ask(lambda queries, word=word: queries.find_row("counts", KeyQuery(word)))  # type: ignore[misc]  # mypy infers no default
    asked = [query for actor in coordinator.actors.values() for call in actor.calls for query in call]
    assert {(query.query, query.task_id.partition) for query in asked} == {
        (KeyQuery(word.encode()), partition_for(placed(word), PARTITIONS)) for word in WORDS
    }


def test_the_keys_of_a_range_are_read_as_the_store_has_them(coordinator: FakeCoordinator) -> None:
    coordinator.pickled_serdes["counts"] = pickled(OfItsTopic("of its topic", str.encode, bytes.decode))
    for actor in coordinator.actors.values():
        actor.keys = [f"app-counts-changelog key {word}".encode() for word in WORDS]
    assert ask(lambda queries: all_pages(queries, 3)) == sorted(WORDS)


def test_keys_are_written_as_the_program_of_another_coordinator_has_them(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def redeploy(queries: StateQueries) -> None:
        assert await queries.key_serde("counts") is Serdes.string()
        new = FakeCoordinator()
        new.pickled_serdes["counts"] = pickled(Serdes.long())
        monkeypatch.setattr("ray.get_actor", lambda *_: new)
        coordinator.gone = True
        assert (await queries.status()).state is ApplicationState.RUNNING
        assert await queries.key_serde("counts") is Serdes.long()

    ask(redeploy)


def test_a_store_without_a_key_serde_is_reported(coordinator: FakeCoordinator) -> None:
    coordinator.pickled_serdes["counts"] = pickled(None)
    with pytest.raises(ConfigError, match=r"store 'counts' has no key serde, and default\.key\.serde is not set"):
        ask(lambda queries: queries.find_row("counts", KeyQuery("x")))
