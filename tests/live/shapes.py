"""The cases that are played live, by their shapes."""

from __future__ import annotations

from collections import defaultdict

from tests.live.bunches import Case
from tests.parity import corpus


def of_shapes() -> dict[str, list[Case]]:
    """All cases of the corpus; those that random cases left are the shapes ``more`` and ``fuzz``."""
    found: dict[str, list[Case]] = defaultdict(list)
    for file in corpus.FILES:
        for case in corpus.read(file):
            found[case["name"].rsplit("-", 2)[0]].append(case)
    return found
