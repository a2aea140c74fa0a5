"""Comparison of two answers to one case."""

from __future__ import annotations

import re
from typing import Any

Case = dict[str, Any]

GIVEN = ("name", "config", "topology", "input")
FIELDS = ("output", "internal", "stores", "description", "metrics")
"""The fields of a player's answer to a case."""

REFUSED = "refused"

_PARTICULAR = re.compile(r"[\d'\"].*", re.DOTALL)
"""Matches the part of an error that is specific to one case: everything from its first digit or quote."""


def asked(case: Case) -> Case:
    """Returns the fields of ``case`` that a player may read."""
    return {field: case[field] for field in GIVEN}


def differing(expected: Case, actual: Case) -> list[str]:
    """Returns the fields in which two answers differ: only ``refused`` if one side refused to play, the other not.

    Two refusals are equal even if their words differ.
    """
    if "error" in expected or "error" in actual:
        return [] if "error" in expected and "error" in actual else [REFUSED]
    return [field for field in FIELDS if expected[field] != actual[field]]


def signature(expected: Case, actual: Case) -> set[str]:
    """Returns the marks of a difference in a smaller case: its fields, or the refusing side and roughly its error."""
    found = differing(expected, actual)
    if found != [REFUSED]:
        return set(found)
    return {
        f"{side}: {_PARTICULAR.sub('', answer['error'])}"
        for side, answer in (("Kafka Streams", expected), ("penstock", actual))
        if "error" in answer
    }


def first_difference(expected: Case, actual: Case, field: str, against: str = "Kafka Streams") -> str:
    """Describes the first difference in ``field``; ``against`` names the side that answered ``expected``."""
    if field == REFUSED:
        words = [answer.get("error", "plays it") for answer in (expected, actual)]
        return f"{against}: {words[0]}; penstock: {words[1]}"
    path, left, right = _first(expected[field], actual[field], field)
    return f"{path}: {against} {left!r}, penstock {right!r}"


def _first(left: Any, right: Any, path: str) -> tuple[str, Any, Any]:
    """Returns the path of the first difference, and the value of each side there."""
    if isinstance(left, str) and isinstance(right, str) and "\n" in left:
        return _first(left.splitlines(), right.splitlines(), path)
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            if key not in left or key not in right:
                return f"{path}.{key}", left.get(key, "has none"), right.get(key, "has none")
            if left[key] != right[key]:
                return _first(left[key], right[key], f"{path}.{key}")
    if isinstance(left, list) and isinstance(right, list):
        for number, (one, other) in enumerate(zip(left, right, strict=False)):
            if one != other:
                return _first(one, other, f"{path}[{number}]")
        if len(left) != len(right):
            at = min(len(left), len(right))
            ended = "has ended"
            return f"{path}[{at}]", left[at] if at < len(left) else ended, right[at] if at < len(right) else ended
    return path, left, right
