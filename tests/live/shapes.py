"""The cases that are played live, by their shapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from tests.live.bunches import Bunch, Case, paced, shape_of
from tests.parity import corpus


def of_shapes() -> dict[str, list[Case]]:
    """All cases of the corpus; those that random cases left are the shapes ``more`` and ``fuzz``."""
    found: dict[str, list[Case]] = defaultdict(list)
    for file in corpus.FILES:
        for case in corpus.read(file):
            found[shape_of(case)].append(case)
    return found


def sample(per_shape: int, records: int, why_not: Callable[[Case], str | None]) -> Bunch:
    """The first records of the first cases of each shape, as one application."""
    cases = tuple(
        {**case, "input": case["input"][:records]}
        for of_shape in of_shapes().values()
        for case in [case for case in of_shape if not case["config"] and why_not(case) is None][:per_shape]
    )
    return Bunch("sample", {}, cases, any(map(paced, cases)))
