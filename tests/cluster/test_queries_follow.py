"""Queries while the application gets partitions: the reader gets no notice, and must find out."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cluster.queries.queries import StateQueries
from penstock.common.ids import TaskId
from penstock.state.queries import KeyQuery
from tests.cluster import fake_actors
from tests.cluster.fake_actors import WORDS, FakeActor, FakeCoordinator, ask
from tests.cluster.fake_actors import coordinator as coordinator
from tests.waiting import PATIENCE_S


def test_keys_are_found_where_they_are_after_a_topic_has_got_partitions(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.queries.queries._OLD_S", 0.0)

    async def found(queries: StateQueries) -> int:
        return sum([await queries.find_row("counts", KeyQuery(word)) is not None for word in WORDS])

    async def question(queries: StateQueries) -> None:
        assert await found(queries) == len(WORDS)
        new = TaskId(1, fake_actors.PARTITIONS)
        monkeypatch.setattr(fake_actors, "PARTITIONS", fake_actors.PARTITIONS + 1)
        coordinator.actors["c"], coordinator.placement[new] = FakeActor(new), "c"
        async with asyncio.timeout(PATIENCE_S):
            while await found(queries) < len(WORDS):
                continue
        assert coordinator.actors["c"].calls

    ask(question)
