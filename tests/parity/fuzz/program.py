"""A random case in the making: its steps so far, and the results from which later steps may continue."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

Case = dict[str, Any]
Step = dict[str, Any]

STREAM, TABLE, WINDOWED, GROUPED, GROUPED_TABLE = "stream", "table", "windowed", "grouped", "grouped_table"
"""Kinds of results of steps. ``WINDOWED`` is a table with windowed keys."""

_UNNAMED = {
    *("repartition", "group_by", "group_by_key", "stream_table", "stream_stream", "foreign_key", "deduplicate"),
    *("time_window", "sliding_window", "session_window", "unlimited_window", "windowed_to_stream", "stream_global"),
}
"""Steps without ``named``. Some have a ``name`` instead, for what they may add upstream."""


@dataclass(frozen=True)
class Made:
    """The result of a step, from which later steps may continue."""

    id: str
    kind: str
    key: str
    value: str


@dataclass
class Program:
    """The steps, in order, and the input topics."""

    rng: Random
    nearness: float = 0.0
    """Probability that a step continues from the last result that fits: high values make chains."""
    steps: list[Step] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    inputs: dict[str, tuple[str, str]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def chance(self, probability: float) -> bool:
        """Returns True with that probability."""
        return self.rng.random() < probability

    def number(self) -> int:
        """Returns the number of the next step."""
        return len(self.steps) + 1

    def add(self, op: str, kind: str, key: str, value: str, /, on: Made | None = None, **fields: Any) -> Made:
        """Append a step, called on ``on``, and what it makes."""
        made = Made(f"n{self.number()}", kind, key, value)
        called_on = {"in": on.id} if on else {}
        if op not in _UNNAMED and self.chance(0.1):
            fields["named"] = f"my-{op}-{self.number()}"
        self.steps.append({"op": op, **called_on, **fields, "id": made.id})
        self.made.append(made)
        self.used.update(called_on.values())
        self.used.update(fields[name] for name in ("with",) if name in fields)
        self.used.update(part["in"] for part in fields.get("parts", ()))
        return made

    def end(self, op: str, on: Made, **fields: Any) -> None:
        """Append a step from which no other continues."""
        self.steps.append({"op": op, "in": on.id, **fields, "id": f"n{self.number()}"})
        self.used.add(on.id)

    def any_of(self, kind: str, key: str | None = None, value: str | None = None) -> Made | None:
        """Returns a result of a kind, and of these types if they are given; later results are taken more often."""
        return self._one(self._fitting(kind, key, value))

    def _fitting(self, kind: str, key: str | None, value: str | None) -> list[Made]:
        kinds = [made for made in self.made if made.kind == kind]
        return [made for made in kinds if key in (None, made.key) and value in (None, made.value)]

    def one_of(self, *kinds: str) -> Made | None:
        """Returns a result of one of these kinds."""
        return self._one([made for made in self.made if made.kind in kinds])

    def _one(self, fitting: list[Made]) -> Made | None:
        if not fitting:
            return None
        if self.chance(self.nearness):
            return fitting[-1]
        return self.rng.choice(fitting[-3:] if self.chance(0.6) else fitting)

    def other(self, than: Made, kind: str, key: str | None = None, value: str | None = None) -> Made | None:
        """Returns a second input of a step, now and then the first one again."""
        fitting = [made for made in self._fitting(kind, key, value) if made.id != than.id]
        if (not fitting or self.chance(0.1)) and than.kind == kind and key in (None, than.key):
            return than if value in (None, than.value) else None
        return self.rng.choice(fitting) if fitting else None

    def comes_from(self, made: Made, op: str) -> bool:
        """Returns True if ``op`` made it, or made what it derives from by the first inputs of steps."""
        before: str | None = made.id
        for step in reversed(self.steps):
            if before is not None and step.get("id") == before:
                if step["op"] == op:
                    return True
                before = step.get("in")
        return False
