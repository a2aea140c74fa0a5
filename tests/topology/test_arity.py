"""Whether a user function gets the key is told by the arguments it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from penstock.common.errors import TopologyError
from penstock.topology.arity import takes_key


class Scaler:
    """A function with state."""

    def __call__(self, key: str, value: int) -> int:
        return value

    def by_value(self, value: int) -> int:
        return value


def three(key: str, left: int, right: int) -> int:
    return left + right


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda value: value, False),
        (lambda key, value: value, True),
        (lambda value, base=10: value, False),
        (lambda key, value, base=10: value, True),
        (lambda *arguments: arguments, False),
        (str.upper, False),
        (len, False),
        (int, False),
        (dict.get, True),
        (Scaler(), True),
        (Scaler().by_value, False),
        (partial(three, "k", 1), False),
    ],
)
def test_a_mapper_gets_the_key_when_it_needs_two_arguments(function: Callable[..., Any], expected: bool) -> None:
    assert takes_key(function, 1, "map_values: mapper") is expected


def test_a_joiner_gets_the_key_when_it_needs_three_arguments() -> None:
    assert takes_key(three, 2, "join: joiner")
    assert not takes_key(lambda left, right: left, 2, "join: joiner")


@pytest.mark.parametrize("function", [lambda: 0, three, lambda *, value: value])
def test_a_function_that_takes_neither_number_is_refused_with_both_numbers(function: Callable[..., Any]) -> None:
    with pytest.raises(TopologyError, match=r"map_values: mapper must take 1 argument, or 2 with the key in front"):
        takes_key(function, 1, "map_values: mapper")


def test_what_cannot_be_called_is_refused_by_name_and_type() -> None:
    with pytest.raises(TopologyError, match=r"map_values: mapper must be callable, not 'upper' \(str\)"):
        takes_key("upper", 1, "map_values: mapper")  # type: ignore[arg-type]  # the error is the point
