"""Differences of live documents: only changed rows travel. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
Document = Mapping[str, Mapping[str, Row]]
"""Rows by section and id."""
Delta = dict[str, dict[str, Row | None]]
"""Changed rows, whole, by section and id; None for a row that is gone. Sections without changes are left out."""


def delta_of(before: Document, after: Document) -> Delta:
    """Returns the changes from ``before`` to ``after``; empty if there are none."""
    found: Delta = {}
    for section in {**before, **after}:
        old, new = before.get(section, {}), after.get(section, {})
        changed: dict[str, Row | None] = {id: row for id, row in new.items() if id not in old or old[id] != row}
        changed |= dict.fromkeys(old.keys() - new.keys())
        if changed:
            found[section] = changed
    return found
