"""The lines of docs/INTEROP.md: kinds of applications, each with the parity cases that are handed over for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from tests.live.bunches import Bunch, Case, paced, shape_of
from tests.live.play import excluded
from tests.live.shapes import of_shapes, operators_seen
from tests.parity.play import play

RECORDS = 12
"""Records of each case that are played: four in each part of a run."""
_CASES = 3
"""Most cases of a line."""


def _ops(*wanted: str) -> Callable[[Case], bool]:
    """Returns a predicate for cases with one of these operators."""
    return lambda case: any(step["op"] in wanted for step in case["topology"])


_WINDOWED = _ops("time_window", "sliding_window", "session_window")
_SUPPRESSED = _ops("suppress")
_JOINED = _ops("stream_stream")


def _windowed_by(operator: str) -> Callable[[Case], bool]:
    return lambda case: _ops(operator)(case) and not _SUPPRESSED(case) and not paced(case)


LINES: dict[str, Callable[[Case], bool]] = {
    "stateless": lambda case: shape_of(case) == "stateless",
    "aggregates": lambda case: shape_of(case) == "aggregate",
    "windows": _windowed_by("time_window"),
    "sliding windows": _windowed_by("sliding_window"),
    "sessions": _windowed_by("session_window"),
    "suppressed windows": lambda case: _SUPPRESSED(case) and _WINDOWED(case) and not paced(case),
    "suppressed tables": lambda case: _SUPPRESSED(case) and not _WINDOWED(case),
    "stream joins": lambda case: _JOINED(case) and not paced(case),
    "stream-table joins": _ops("stream_table"),
    "global tables": _ops("stream_global"),
    "table joins": _ops("table_table"),
    "foreign keys": _ops("foreign_key"),
    "groups of tables": lambda case: shape_of(case) == "table_ops" and _ops("group_by")(case),
    "cogroup": _ops("cogroup"),
    "versioned tables": _ops("versioned_table"),
    "processors": lambda case: shape_of(case) == "process" and not _ticks(case),
}
PACED_LINES: dict[str, Callable[[Case], bool]] = {
    "windows, emitted on close": lambda case: _WINDOWED(case) and paced(case) and not _JOINED(case),
    "left and outer stream joins": lambda case: _JOINED(case) and paced(case),
}
"""Lines with operators that look for closed windows once in a second of the wall clock: a run takes longer."""


def _ticks(case: Case) -> bool:
    """Returns True if the case punctuates. A restart shows in that: no start knows when a punctuator was due."""
    return any(step.get("fn", "").startswith("tick") for step in case["topology"])


def _loses_late_records(case: Case) -> bool:
    """Returns True if windowed operators drop records that are too late. A restart of Kafka Streams shows in that: the
    operators forget the time, so that records are not late any more."""
    windowed = any("window" in step or step["op"].endswith("_window") for step in case["topology"])
    return windowed and play(case)["metrics"]["dropped-records-total"] > 0


def _chosen(line: str, cases: Iterable[Case]) -> list[Case]:
    """Returns the smallest cases that have together all operators of the line's cases, a few at most."""
    seen: set[str] = set()
    found: list[Case] = []
    for case in sorted(cases, key=lambda case: (len(case["topology"]), case["name"])):
        if len(found) < _CASES and not operators_seen(case) <= seen:
            name = f"{re.sub('[^a-z]+', '_', line)}-{case['name']}"
            begun = {**case, "name": name, "input": case["input"][:RECORDS]}
            if not _loses_late_records(begun):
                seen |= operators_seen(case)
                found.append(begun)
    return found


def cases_of(lines: Mapping[str, Callable[[Case], bool]]) -> dict[str, list[Case]]:
    """Returns the cases of each line."""
    every = [case for alike in of_shapes(("golden.jsonl.gz",)).values() for case in alike]
    able = [case for case in every if not case["config"] and excluded(case) is None]
    return {line: _chosen(line, filter(belongs, able)) for line, belongs in lines.items()}


def bunch_of(prefix: str, cases: Iterable[Case]) -> Bunch:
    """Returns the cases as one application, with topics that begin with ``prefix``."""
    named = tuple({**case, "name": f"{prefix}{case['name']}"} for case in cases)
    return Bunch(prefix, {}, named, any(map(paced, named)), partitions=2)
