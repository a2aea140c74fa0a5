"""The cases that are played live, by their shapes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable

from tests.live import own
from tests.live.bunches import Bunch, Case, paced, shape_of
from tests.parity import corpus


def of_shapes(files: Iterable[str] = corpus.DSL) -> dict[str, list[Case]]:
    """All cases of ``files``; those that random cases left are the shapes ``more`` and ``fuzz``."""
    found: dict[str, list[Case]] = defaultdict(list)
    for file in files:
        for number, case in enumerate(corpus.read(file)):
            named = {**case, "name": _in_topics(case["name"], file, number)} if file in _SENTENCES else case
            found[shape_of(named)].append(named)
    return found


def every_shape() -> dict[str, list[Case]]:
    """Returns all cases: those of Kafka Streams, and those of what it lacks."""
    return {**of_shapes(corpus.FILES), **own.of_shapes()}


_SENTENCES = (corpus.BY_HAND, corpus.TABLES)
"""Files whose cases have sentences as names."""


def _in_topics(name: str, file: str, number: int) -> str:
    """Returns a case's name in a form that topics can have. Its shape is the file's name."""
    return f"{file.partition('.')[0]}-{re.sub('[^a-zA-Z0-9]+', '_', name)}-{number}"


def sample(records: int, why_not: Callable[[Case], str | None], seen_by: Callable[[Case], set[str]]) -> Bunch:
    """The first records of small cases that have together all that ``seen_by`` sees in any case, as one application."""
    cases: list[Case] = []
    seen: set[str] = set()
    shapes = {**of_shapes(), **own.of_shapes()}
    able = [case for of_shape in shapes.values() for case in of_shape if not case["config"] and not why_not(case)]
    for case in sorted(able, key=lambda case: len(case["topology"])):
        if not seen_by(case) <= seen:
            seen |= seen_by(case)
            cases.append({**case, "input": case["input"][:records]})
    return Bunch("sample", {}, tuple(cases), any(map(paced, cases)))


def shapes_seen(case: Case) -> set[str]:
    """Returns the shape of a case."""
    return {shape_of(case)}


def operators_seen(case: Case) -> set[str]:
    """Returns the shape of a case, its operators and their kinds."""
    found = {shape_of(case)}
    for step in case["topology"]:
        window = step.get("window") or {}
        kinds = [step.get("kind"), step.get("emit_final"), "wait_ms" in step, window.get("op"), "ttl_ms" in step]
        found.add(" ".join(map(str, (step["op"], *kinds))))
    return found
