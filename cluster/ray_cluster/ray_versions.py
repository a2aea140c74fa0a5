"""Calls of Ray that differ between the versions that penstock supports."""

from __future__ import annotations

from typing import Any

import ray
from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn

VERSION = tuple(int(part) for part in ray.__version__.split(".")[:2])
_SELECTORS = (2, 49)


def on_no_node_of(avoid: frozenset[str], anywhere: str) -> dict[str, Any]:
    """Returns the options for an actor on any node except those of ``avoid``, by the strategy ``anywhere``; Ray before
    2.49 cannot do both, and takes any other node."""
    if VERSION >= _SELECTORS:
        selector = {"ray.io/node-id": f"!in({','.join(sorted(avoid))})"}
        return {"scheduling_strategy": anywhere, "label_selector": selector}
    # 2.44 has no selectors, 2.46 ignores them, and the label has another name.
    others = NotIn(*sorted(avoid))  # type: ignore[no-untyped-call]  # untyped in Ray
    return {"scheduling_strategy": NodeLabelSchedulingStrategy({"ray.io/node_id": others})}
