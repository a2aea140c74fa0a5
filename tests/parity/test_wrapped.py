"""A wrapper that puts a processor of its own around each one, and changes nothing, changes no result (KIP-1112)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from tests.parity import corpus
from tests.parity.compare import FIELDS
from tests.parity.play import play

EVERY = corpus.read("golden.jsonl.gz")
CASES = [*EVERY[::9], *corpus.read("more.jsonl.gz")[::6]]
CALLS: Counter[str] = Counter()


class Around(ps.Processor[Any, Any, Any, Any]):
    """Hands everything on, the context too."""

    def __init__(self, name: str, inner: Any) -> None:
        self._name = name
        self._inner = inner

    def init(self, context: Any) -> None:
        """Hand on."""
        self._inner.init(context)

    def process(self, record: Any) -> None:
        """Count and hand on."""
        CALLS[self._name] += 1
        self._inner.process(record)

    def close(self) -> None:
        """Hand on."""
        self._inner.close()


class AroundFixedKey(Around, ps.FixedKeyProcessor[Any, Any, Any]):
    """Like ``Around``, for processors that cannot change keys."""


class Everywhere(ps.ProcessorWrapper):
    """Wraps all processors."""

    def wrap_processor_supplier(self, name: str, supplier: Callable[[], Any]) -> Callable[[], Any]:
        """Returns a supplier of wrapped processors."""
        return lambda: Around(name, supplier())

    def wrap_fixed_key_processor_supplier(self, name: str, supplier: Callable[[], Any]) -> Callable[[], Any]:
        """Returns a supplier of wrapped processors."""
        return lambda: AroundFixedKey(name, supplier())


def wrapped(case: dict[str, Any]) -> dict[str, Any]:
    return {**case, "config": {**case["config"], "processor.wrapper.class": Everywhere}}


def processors(description: str) -> set[str]:
    return {line.split()[1] for line in description.splitlines() if line.startswith("    Processor: ")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_wrapper_that_hands_everything_on_changes_nothing(case: dict[str, Any]) -> None:
    CALLS.clear()
    played = play(wrapped(case))
    for field in FIELDS:
        assert played[field] == case[field], field
    assert set(CALLS) <= processors(case["description"])


def test_every_processor_that_got_a_record_was_called_by_way_of_the_wrapper() -> None:
    case = next(case for case in EVERY if case["name"].startswith("aggregate") and len(case["input"]) > 20)
    CALLS.clear()
    play(wrapped(case))
    assert set(CALLS) == processors(case["description"])
