"""No key that a task has is called absent, for any partitioner that placed it. Actors are stand-ins, no Ray runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest

from penstock.actors.store_queries import QueryFailure, StoreQuery
from penstock.cluster.queries.queries import StateQueries
from penstock.cluster.read_side import Reading
from penstock.common.errors import StateStoreError, TaskNotReadyError
from penstock.common.ids import TaskId
from penstock.common.murmur2 import partition_for
from penstock.common.partitioners import Partitioner
from penstock.state.queries import KeyQuery
from tests.cluster.fake_actors import PARTITIONS, WORDS, FakeCoordinator, ask
from tests.cluster.fake_actors import coordinator as coordinator

BY_CRC32 = "word-00"
"""A key that CRC32 and murmur2 place differently: see the first test."""


def by_crc32(key: bytes, partitions: int) -> int:
    return crc32(key) % partitions


def by_last_byte(key: bytes, partitions: int) -> int:
    return key[-1] % partitions


@pytest.fixture
def elsewhere(coordinator: FakeCoordinator) -> FakeCoordinator:
    """An application whose source topic librdkafka's default partitioner wrote."""
    place(coordinator, by_crc32)
    return coordinator


def place(coordinator: FakeCoordinator, partitioner: Callable[[bytes, int], int]) -> None:
    coordinator.certain = False
    for actor in coordinator.actors.values():
        actor.place = partitioner


def queries_of(coordinator: FakeCoordinator) -> list[StoreQuery]:
    return [query for actor in coordinator.actors.values() for call in actor.calls for query in call]


def one(key: str) -> Any:
    return ask(lambda queries: queries.find_row("counts", KeyQuery(key)))


def many(keys: list[str]) -> list[Any]:
    found: list[Any] = ask(lambda queries: queries.get_many("counts", keys))
    return found


def test_the_two_partitioners_differ_for_the_key_of_these_tests() -> None:
    assert by_crc32(BY_CRC32.encode(), PARTITIONS) != partition_for(BY_CRC32.encode(), PARTITIONS)


@pytest.mark.parametrize("partitioner", [by_crc32, by_last_byte, partition_for])
def test_every_key_is_found_whichever_partitioner_placed_it(
    coordinator: FakeCoordinator, partitioner: Callable[[bytes, int], int]
) -> None:
    place(coordinator, partitioner)

    async def all_words(queries: StateQueries) -> list[Any]:
        return [await queries.find_row("counts", KeyQuery(word)) for word in WORDS]

    assert [entry and entry.key for entry in ask(all_words)] == WORDS
    asked = ["nobody", *WORDS, "nor she"]
    assert [entry and entry.key for entry in many(asked)] == [None, *WORDS, None]


def test_a_key_whose_task_is_certain_is_looked_for_there_alone(coordinator: FakeCoordinator) -> None:
    assert one("nobody") is None
    (query,) = queries_of(coordinator)
    assert query.task_id == TaskId(1, partition_for(b"nobody", PARTITIONS))


def test_a_key_in_the_partition_that_murmur2_gives_takes_one_query(coordinator: FakeCoordinator) -> None:
    coordinator.certain = False
    assert one(WORDS[0]).key == WORDS[0]
    assert len(queries_of(coordinator)) == 1


def test_a_key_is_looked_up_first_in_the_partition_that_the_known_partitioner_gives(elsewhere: FakeCoordinator) -> None:
    elsewhere.partitioner = Partitioner.CRC32
    assert one(BY_CRC32).key == BY_CRC32
    (query,) = queries_of(elsewhere)
    assert query.task_id == TaskId(1, by_crc32(BY_CRC32.encode(), PARTITIONS))


def test_all_tasks_are_asked_at_once_if_the_partitioner_is_known_to_be_neither(elsewhere: FakeCoordinator) -> None:
    elsewhere.partitioner = Partitioner.UNKNOWN
    assert one(BY_CRC32).key == BY_CRC32
    assert [len(actor.calls) for actor in elsewhere.actors.values()] == [1, 1]


def test_many_keys_take_two_calls_to_each_actor_however_many_tasks_it_has(elsewhere: FakeCoordinator) -> None:
    asked = [*WORDS, "absent"]
    assert sum(entry is not None for entry in many(asked)) == len(WORDS)
    assert [len(actor.calls) for actor in elsewhere.actors.values()] == [2, 2]


@pytest.mark.parametrize("failure", [QueryFailure.NOT_ACTIVE, QueryFailure.STORE_EXCEPTION])
def test_a_key_is_not_called_absent_while_a_task_that_may_have_it_does_not_answer(
    elsewhere: FakeCoordinator, failure: QueryFailure
) -> None:
    error = TaskNotReadyError if failure is QueryFailure.NOT_ACTIVE else StateStoreError
    for name, silent in elsewhere.actors.items():
        silent.failure = failure
        with pytest.raises(error):
            one("nobody")
        with pytest.raises(error):
            many([*WORDS, "nobody"])
        mine = {task.partition for task, actor in elsewhere.placement.items() if actor == name}
        answered = [word for word in WORDS if by_crc32(word.encode(), PARTITIONS) not in mine]
        assert answered
        for word in answered:
            assert one(word).key == word, "found, whichever other task does not answer"
        assert [entry.key for entry in many(answered)] == answered
        silent.failure = None


def test_a_question_that_no_task_answers_is_put_to_one(elsewhere: FakeCoordinator) -> None:
    for actor in elsewhere.actors.values():
        actor.failure = QueryFailure.DOES_NOT_EXIST
    with pytest.raises(Exception, match="no state store"):
        one("nobody")
    assert len(queries_of(elsewhere)) == 1


def test_a_standby_may_answer_that_a_key_is_absent_if_stale_answers_are_allowed(elsewhere: FakeCoordinator) -> None:
    elsewhere.actors["a"].failure = QueryFailure.NOT_ACTIVE
    reading = Reading(stale=True)
    assert ask(lambda queries: queries.find_row("counts", KeyQuery("nobody"), reading)) is None
    assert reading.was_stale
