"""Tells a process that died on a living node from one that was lost with its node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.cluster.environment import NodeAnswer
from penstock.cluster.events import FindCause, ProcessDied

LOOK_AFTER_S = 3.0
"""The processes of a node that ends die before its raylet does."""


async def find_cause(
    wanted: FindCause, node: Callable[[str], Coroutine[Any, Any, NodeAnswer]], feed: Callable[[ProcessDied], None]
) -> None:
    """Feeds ProcessDied if the node is still there after LOOK_AFTER_S. ``node`` asks a node, see
    :meth:`~penstock.cluster.environment.Environment.node`."""
    await asyncio.sleep(LOOK_AFTER_S)
    if await node(wanted.node) is NodeAnswer.ANSWERS:
        feed(ProcessDied(wanted.generation))
