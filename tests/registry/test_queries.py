"""Queries by keys of a schema registry that is slow or away: they stop no others, and look in no wrong place."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import httpx
import pytest

import penstock as ps
from penstock.actors.loop import answers
from penstock.actors.store_queries import QueryFailure
from penstock.cluster.queries.queries import StateQueries
from penstock.common import may_wait
from penstock.common.serdes import bound
from penstock.registry.contracts import Schema
from penstock.state.queries import KeyQuery
from tests.api.conftest import client as client
from tests.api.conftest import read_side as read_side
from tests.api.fake import FakeReadSide, FakeStore
from tests.cluster.fake_actors import FakeCoordinator, ask, pickled
from tests.cluster.fake_actors import coordinator as coordinator
from tests.waiting import PATIENCE_S


@dataclass(frozen=True)
class Item:
    name: str


@pytest.fixture
def asked(coordinator: FakeCoordinator, config: dict[str, str]) -> FakeCoordinator:
    coordinator.pickled_serdes["counts"] = pickled(ps.Serdes.avro(Item).configure(config))
    return coordinator


def test_the_event_loop_continues_while_a_slow_registry_is_asked(
    asked: FakeCoordinator, registry: ps.MockSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(may_wait, "_LOOP_S", PATIENCE_S)
    registry.latency_ms = 1
    answers_now, register = threading.Event(), ps.MockSchemaRegistry.register

    def slow(self: ps.MockSchemaRegistry, subject: str, schema: Schema, normalize: bool) -> int:
        assert answers_now.wait(PATIENCE_S)
        return register(self, subject, schema, normalize)

    monkeypatch.setattr(ps.MockSchemaRegistry, "register", slow)

    async def query(queries: StateQueries) -> None:
        finding = asyncio.create_task(queries.find_row("counts", KeyQuery(Item("tea"))))
        while registry.calls == [] and not queries._key_serdes:
            await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0.01)
        answers_now.set()
        await finding

    ask(query)
    assert sum(len(actor.calls) for actor in asked.actors.values()) == 1


def test_a_registry_that_is_away_is_an_error_and_no_look_up_in_another_partition(
    asked: FakeCoordinator,
    config: dict[str, str],
    registry: ps.MockSchemaRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(may_wait, "_LOOP_S", 0.05)
    bound(ps.Serdes.avro(Item), "app-counts-changelog", "key", config).prepare()
    with registry.outage(), pytest.raises(ps.RetriableError, match="does not answer"):
        ask(lambda queries: queries.find_row("counts", KeyQuery(Item("tea"))))
    assert not any(actor.calls for actor in asked.actors.values())


@pytest.mark.parametrize("path", ["keys/a", "range", "range?from=a&to=b"])
def test_over_http_a_registry_that_is_away_is_503(
    path: str, client: httpx.Client, read_side: FakeReadSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(key: str) -> bytes:
        raise ps.RetriableError("the registry does not answer")

    monkeypatch.setattr(may_wait, "_LOOP_S", 0.05)
    read_side.fakes["away"] = FakeStore(ps.Serde("away", away, bytes.decode, str))
    if "to=" not in path:
        read_side.failure = ps.RetriableError("the registry does not answer")
    answer = client.get(f"/v1/applications/word-count/stores/away/{path}")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["type"] == "urn:penstock:problem:serde-not-ready"


def test_an_actor_that_does_not_know_the_schema_of_a_value_yet_is_asked_again() -> None:
    answer = answers._failed(ps.RetriableError("the registry has not answered yet"))
    assert answer.failure is QueryFailure.BUSY
