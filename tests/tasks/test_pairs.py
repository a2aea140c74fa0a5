"""The results that ``map`` and ``flat_map`` accept as a pair."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from penstock.common.errors import ProcessingError
from tests.tasks.bench import values
from tests.tasks.test_errors import wired


class Two(NamedTuple):
    key: str
    value: str


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("ab", "map got str from its mapper, 'ab'"),
        (None, "map got NoneType from its mapper, None"),
        (["k", "v"], "map got list from its mapper, ['k', 'v']"),
        (("k", "v", 1), "map got a tuple of 3 from its mapper, ('k', 'v', 1)"),
        ({"k": 1, "v": 2}, "map got dict from its mapper"),
    ],
)
def test_a_map_that_returns_no_pair_is_named_at_its_first_record(returned: Any, message: str) -> None:
    bench = wired(lambda b, s: s.map(lambda k, v: returned))
    bench.add("in", ("k", "v", 1))
    with pytest.raises(ProcessingError) as caught:
        bench.run()
    assert (caught.value.operator, caught.value.offset) == ("KSTREAM-MAP-0000000001", 0)
    assert message in str(caught.value)
    assert "return (key, value)" in str(caught.value)


@pytest.mark.parametrize("returned", [["ab"], "ab", [["k", "v"]], [("k",)], {"ab": 1}])
def test_a_flat_map_wants_pairs_too(returned: Any) -> None:
    bench = wired(lambda b, s: s.flat_map(lambda k, v: returned))
    bench.add("in", ("k", "v", 1))
    with pytest.raises(ProcessingError, match=r"return an iterable of pairs \(key, value\)"):
        bench.run()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda b, s: s.flat_map(lambda k, v: None), r"flat_map: .*must return an iterable of pairs \(key, value\)"),
        (lambda b, s: s.flat_map_values(lambda v: None), "flat_map_values: .*must return an iterable of values"),
        (lambda b, s: s.flat_map_values(lambda k, v: 3), "'int' object is not iterable: its mapper must return"),
    ],
)
def test_a_mapper_that_returns_nothing_raises_an_error_that_names_what_to_return(program: Any, message: str) -> None:
    bench = wired(program)
    bench.add("in", ("k", "v", 1))
    with pytest.raises(ProcessingError, match=message):
        bench.run()


def _iterates_over_nothing(value: Any) -> list[Any]:
    nothing: Any = None
    return list(nothing)


def test_an_error_inside_of_a_mapper_is_reported_unchanged() -> None:
    bench = wired(lambda b, s: s.flat_map_values(_iterates_over_nothing))
    bench.add("in", ("k", "v", 1))
    with pytest.raises(ProcessingError) as caught:
        bench.run()
    assert "'NoneType' object is not iterable" in str(caught.value)
    assert "must return" not in str(caught.value)


def test_a_named_tuple_of_two_is_a_pair() -> None:
    bench = wired(lambda b, s: s.map(lambda k, v: Two(k, v)).flat_map(lambda k, v: [Two(k, v)]))
    assert values(bench.feed("in", ("k", "v", 1))) == ["v"]
