"""The result of a table join that caches hold back is deleted with its two sides, in one commit or in several."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import penstock as ps
from tests.tasks.bench import Bench, Sent

STRING = ps.Serdes.string()
STRINGS = ps.Consumed.with_(STRING, STRING)
CONFIG = {"default.key.serde": STRING, "default.value.serde": STRING}
Rows = dict[str, str]
Table = ps.KTable[Any, Any]


KEPT: ps.Materialized[Any, Any] = ps.Materialized.with_(STRING, STRING)
BY_A_TOPIC: ps.Repartitioned[Any, Any] = ps.Repartitioned.with_(STRING, STRING).with_name("by-a-topic")
GROUPED = ps.Grouped.with_(STRING, STRING)


def grouped_by(key: str, value: str) -> tuple[str, str]:
    return "all", value


def pair(left: Any, right: Any) -> str:
    return f"({left},{right})"


def bench(join: Callable[..., Table], *cached: bool) -> Bench:
    """Returns a bench with a join of tables ``l``, ``r`` and ``s`` to ``out``, each with a cache or without."""
    builder = ps.StreamsBuilder()
    tables = []
    for name, has_cache in zip("lrs", cached or (True, True, True), strict=True):
        kept: ps.Materialized[Any, Any] = ps.Materialized.as_(name.upper())
        tables.append(builder.table(name, STRINGS, kept if has_cache else kept.with_caching_disabled()))
    join(*tables).to_stream().to("out")
    return Bench(builder, CONFIG)


def reported(sent: list[Sent]) -> list[tuple[str | None, int]]:
    """Returns values and timestamps of the results."""
    return [
        (None if each.value is None else each.value.decode(), each.timestamp) for each in sent if each.topic == "out"
    ]


def inner(left: Table, right: Table, _: Table) -> Table:
    return left.join(right, pair)


@pytest.mark.parametrize("order", ["lr", "rl"])
def test_both_sides_deleted_within_a_commit_take_the_result_along(order: str) -> None:
    it = bench(inner)
    it.feed("l", ("k", "a", 1))
    it.feed("r", ("k", "b", 2))
    assert set(reported(it.commit())) == {("(a,b)", 2)}
    for number, side in enumerate(order):
        it.feed(side, ("k", None, 10 + number))
    assert reported(it.commit()) == [(None, 11)], "once, with the larger of the two timestamps"
    assert reported(it.commit()) == []


def test_a_row_that_never_had_a_result_has_no_deletion() -> None:
    it = bench(inner)
    it.feed("l", ("k", "a", 1))
    it.commit()
    it.feed("r", ("k", "b", 2), ("k", None, 3))
    it.feed("l", ("k", None, 4))
    assert reported(it.commit()) == []


def test_without_caches_each_deletion_is_forwarded_as_it_comes() -> None:
    it = bench(inner, False, False, False)
    it.feed("l", ("k", "a", 1))
    assert reported(it.feed("r", ("k", "b", 2))) == [("(a,b)", 2)]
    assert reported(it.feed("l", ("k", None, 3))) == [(None, 3)]
    assert reported(it.feed("r", ("k", None, 4))) == []
    assert reported(it.commit()) == []


@pytest.mark.parametrize(
    "derived",
    [
        lambda table: table,
        lambda table: table.outer_join(table, pair),
        lambda table: table.to_stream().to_table(),
    ],
    ids=["itself", "a join with itself", "its stream as a table"],
)
def test_a_table_and_one_that_comes_from_it_keep_the_result_as_in_kafka_streams(
    derived: Callable[[Table], Table],
) -> None:
    """One record deletes the rows of both. Found by the fuzzer (seed 2611)."""
    it = bench(lambda left, right, other: left.join(derived(left), pair))
    it.feed("l", ("k", "a", 1))
    assert reported(it.commit())
    it.feed("l", ("k", None, 2))
    assert reported(it.commit()) == []


@pytest.mark.parametrize("order", [1, -1])
def test_a_table_computed_at_each_look_up_comes_from_where_its_values_are_kept(order: int) -> None:
    """Like the test above, but the store of ``left`` is looked into through ``map_values``."""

    def join(left: Table, *_: Table) -> Table:
        derived = left.to_stream().to_table()
        one, other = (left.map_values(str.upper), derived)[::order]
        return one.join(other, pair)

    it = bench(join)
    it.feed("l", ("k", "a", 1))
    assert reported(it.commit())
    it.feed("l", ("k", None, 2))
    assert reported(it.commit()) == []


def test_a_cogrouped_table_comes_from_each_of_its_streams() -> None:
    def kept_or_gone(key: str, value: str, aggregate: str) -> str | None:
        return None if value == "gone" else value

    def join(left: Table, right: Table, _: Table) -> Table:
        one = right.to_stream().group_by_key(GROUPED)
        other = left.to_stream().map_values(lambda value: value or "gone").group_by_key(GROUPED)
        return left.join(one.cogroup(kept_or_gone).cogroup(other, kept_or_gone).aggregate(str, KEPT), pair)

    it = bench(join)
    it.feed("l", ("k", "a", 1))
    assert reported(it.commit())
    it.feed("l", ("k", None, 2))
    assert reported(it.commit()) == []


def test_one_record_that_deletes_a_row_of_two_tables_of_one_stream_deletes_their_result() -> None:
    """Kafka Streams without caches deletes it, too."""
    it = bench(lambda left, *_: left.to_stream().to_table(KEPT).join(left.to_stream().to_table(KEPT), pair))
    it.feed("l", ("k", "a", 1))
    assert reported(it.commit())[-1] == ("(a,a)", 1)
    it.feed("l", ("k", None, 2))
    assert reported(it.commit()) == [(None, 2)]


def test_a_table_and_one_that_comes_from_it_by_a_topic_lose_their_result_together() -> None:
    it = bench(lambda left, *_: left.join(left.to_stream().repartition(BY_A_TOPIC).to_table(KEPT), pair))
    for topic in ("l", "app-by-a-topic-repartition"):
        it.feed(topic, ("k", "a", 1))
    assert reported(it.commit())[-1] == ("(a,a)", 1)
    for topic in ("l", "app-by-a-topic-repartition"):
        it.feed(topic, ("k", None, 2))
    assert reported(it.commit()) == [(None, 2)]


@pytest.mark.parametrize("cached", [(True, False, True), (False, True, True)])
def test_a_side_without_a_cache_deletes_no_result_that_never_was(cached: tuple[bool, bool, bool]) -> None:
    """It may get and lose a row several times before the cache of the other side is flushed."""
    cached_side, other = ("l", "r") if cached[0] else ("r", "l")
    it = bench(lambda left, right, _: left.join(right, pair).group_by(grouped_by, GROUPED).count(), *cached)
    it.feed(cached_side, ("k", "a", 1))
    it.commit()
    changes = it.feed(cached_side, ("k", None, 2))
    for timestamp in range(3, 9, 2):
        changes += it.feed(other, ("k", "b", timestamp), ("k", None, timestamp + 1))
    changes += it.commit()
    assert [each.value for each in changes if each.topic.endswith("-repartition")] == []


@pytest.mark.parametrize(
    ("cached", "order", "results"),
    [
        ((True, False, True), "lr", []),
        ((True, False, True), "rl", [(None, 3)]),
        ((False, True, True), "lr", [(None, 3)]),
        ((False, True, True), "rl", []),
    ],
)
def test_a_deletion_behind_a_single_cache_is_that_of_kafka_streams(
    cached: tuple[bool, bool, bool], order: str, results: list[tuple[None, int]]
) -> None:
    it = bench(inner, *cached)
    it.feed("l", ("k", "a", 1))
    it.feed("r", ("k", "b", 2))
    it.commit()
    assert [each for side in order for each in reported(it.feed(side, ("k", None, 3)))] + reported(
        it.commit()
    ) == results


def plain(left: Rows, right: Rows, third: Rows) -> Rows:
    return {key: pair(left[key], right[key]) for key in left.keys() & right.keys()}


def kept(left: Rows, right: Rows, third: Rows) -> Rows:
    return {key: pair(left[key], right.get(key)) for key in left}


def both(left: Rows, right: Rows, third: Rows) -> Rows:
    return {key: pair(left.get(key), right.get(key)) for key in left.keys() | right.keys()}


def mapped(left: Rows, right: Rows, third: Rows) -> Rows:
    return {key: pair(left[key], right[key] + "!") for key in left.keys() & right.keys() if left[key] != "b"}


def thrice(left: Rows, right: Rows, third: Rows) -> Rows:
    return {key: pair(third[key], value) for key, value in plain(left, right, third).items() if key in third}


def by_foreign_key(left: Rows, right: Rows, third: Rows) -> Rows:
    return {key: pair(value, right[value]) for key, value in left.items() if value in right}


PROGRAMS: dict[str, tuple[Callable[..., Table], Callable[[Rows, Rows, Rows], Rows]]] = {
    "inner": (inner, plain),
    "left": (lambda left, right, third: left.left_join(right, pair), kept),
    "outer": (lambda left, right, third: left.outer_join(right, pair), both),
    "mapped": (
        lambda left, right, third: left.filter(lambda key, value: value != "b").join(
            right.map_values(lambda value: value + "!"), pair
        ),
        mapped,
    ),
    "of a join": (lambda left, right, third: third.join(left.join(right, pair), pair), thrice),
    "by foreign key": (lambda left, right, third: left.join(right, lambda value: value, pair), by_foreign_key),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_results_are_those_of_the_tables_whatever_a_commit_has_together(program: str) -> None:
    join, expected = PROGRAMS[program]
    for seed in range(60):
        random = Random(seed)
        builder = ps.StreamsBuilder()
        tables = [builder.table(name, STRINGS, ps.Materialized.as_(name.upper())) for name in "lrs"]
        join(*tables).to_stream().to("out", ps.Produced.with_(STRING, STRING))
        rows: dict[str, Rows] = {name: {} for name in "lrs"}
        found: Rows = {}
        with ps.TopologyTestDriver(builder.build(), CONFIG) as driver:
            sources = {name: driver.create_input_topic(name, STRING, STRING) for name in "lrs"}
            commit, driver._commit = driver._commit, lambda: None  # type: ignore[method-assign]
            for _ in range(14):
                if random.random() < 0.3:
                    commit()
                    driver._work()
                name, key, value = random.choice("lrs"), random.choice("ab"), random.choice(["a", "b", None])
                sources[name].pipe_input(key, value, 1)
                rows[name].pop(key, None)
                if value is not None:
                    rows[name][key] = value
            driver._commit = commit  # type: ignore[method-assign]
            for _ in range(3):
                commit()
                driver._work()
            for each, result in driver.create_output_topic("out", STRING, STRING).read_key_values_to_list():
                assert each is not None
                found.pop(each, None)
                if result is not None:
                    found[each] = result
        assert found == expected(*rows.values()), f"seed {seed}"
