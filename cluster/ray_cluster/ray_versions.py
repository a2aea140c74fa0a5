"""What differs between the versions of Ray that penstock supports, where the others must not care."""

from __future__ import annotations

from typing import Any

import ray
from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn

VERSION = tuple(int(part) for part in ray.__version__.split(".")[:2])
_SELECTORS = (2, 49)


def on_no_node_of(avoid: frozenset[str], anywhere: str) -> dict[str, Any]:
    """Returns the options for an actor on any node but those of ``avoid``, spread as ``anywhere`` has it, if Ray can
    do both: before 2.49 it takes any other node."""
    if VERSION >= _SELECTORS:
        return {"scheduling_strategy": anywhere, "label_selector": {"ray.io/node-id": f"!in({','.join(sorted(avoid))})"}}
    return {"scheduling_strategy": NodeLabelSchedulingStrategy({"ray.io/node_id": NotIn(*sorted(avoid))})}
