"""Asks a Ray node if it is there: by a connection to its raylet.

The kernel accepts the connection, also on a loaded machine and for a process that stands still. So a refusal means
that the raylet has ended, and Ray never brings it back under the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from penstock.cluster.environment import NodeAnswer

CONNECT_S = 1.0

Address = tuple[str, int]


class NodeProbe:
    """Asks nodes by their ids. ``addresses``, which is called in another thread, returns the raylet of each node of the
    cluster, None for one that Ray itself calls dead."""

    def __init__(self, addresses: Callable[[], Mapping[str, Address | None]]) -> None:
        self._addresses = addresses
        self._known: dict[str, Address | None] = {}

    async def ask(self, node_id: str) -> NodeAnswer:
        """Returns ANSWERS for a node that nobody knows: then nothing may be concluded."""
        if node_id not in self._known:
            self._known = dict(await asyncio.to_thread(self._addresses))
        if node_id not in self._known:
            return NodeAnswer.ANSWERS
        address = self._known[node_id]
        return NodeAnswer.GONE if address is None else await _connect(*address)


async def _connect(host: str, port: int) -> NodeAnswer:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_S)
    except ConnectionRefusedError:
        return NodeAnswer.GONE
    except (OSError, TimeoutError):
        return NodeAnswer.UNREACHABLE
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return NodeAnswer.ANSWERS
