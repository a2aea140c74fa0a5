"""Objects with test drivers that are closed when their test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from penstock.testing.topology_test_driver import TopologyTestDriver


class Played(Protocol):
    """An object with a test driver."""

    driver: TopologyTestDriver


P = TypeVar("P", bound=Played)


def closing_all(make: Callable[..., P]) -> Iterator[Callable[..., P]]:
    """Yields ``make`` for a fixture; the drivers that it makes are closed at the end."""
    made: list[P] = []

    def remembered(*arguments: Any, **options: Any) -> P:
        made.append(make(*arguments, **options))
        return made[-1]

    yield remembered
    for each in made:
        each.driver.close()
