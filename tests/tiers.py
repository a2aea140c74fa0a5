"""The tiers of the tests: ``make test`` plays one of them, each submission two, each night all.

A test without a mark is part of ``make test``, which is to be done in nine minutes. One that is marked ``submission``
is slow, and its answer is wanted before a change lands (``.ci/run``). One that is marked ``long`` is slow, and another
test finds most of its faults. ``make test-long`` plays both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], every: int, rest: pytest.MarkDecorator = pytest.mark.long) -> list[Any]:
    """Returns parameters of a test: each ``every``-th is part of ``make test``, the others are marked as ``rest``."""
    return [value if number % every == 0 else pytest.param(value, marks=rest) for number, value in enumerate(values)]


def examples(count: int) -> int:
    """Returns the number of examples that Hypothesis makes for a test: ``count``, times the environment's ``EXAMPLES``.

    ``make test EXAMPLES=10`` plays ten times as many, each night.
    """
    return count * int(os.environ.get("EXAMPLES", "1"))
