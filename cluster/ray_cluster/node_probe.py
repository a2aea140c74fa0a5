"""Asks a Ray node if it is there: by a connection to its raylet, and by Ray's own list of nodes.

The kernel accepts the connection, also on a loaded machine and for a frozen process. So a refusal means that
the raylet has ended, and Ray never brings it back under the same id; or that a firewall refuses in its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from penstock.cluster.environment import NodeAnswer
from penstock.common.log import logger
from penstock.common.within import within

_log = logger(__name__)
CONNECT_S = 1.0
LIST_S = 1.0
"""Longest wait for Ray's list, in seconds. A list that comes later is used by the next question."""

Address = tuple[str, int]


class NodeProbe:
    """Asks nodes by their ids. ``addresses``, which is called in another thread, returns the raylet of each node of the
    cluster, None for one that Ray itself calls dead."""

    def __init__(self, addresses: Callable[[], Mapping[str, Address | None]]) -> None:
        self._addresses = addresses
        self._known: dict[str, Address | None] = {}
        self._last: dict[str, Address] = {}
        self._listing: asyncio.Future[Mapping[str, Address | None]] | None = None

    async def ask(self, node_id: str) -> NodeAnswer:
        """Returns ANSWERS for an unknown node, of which nothing may be concluded. Takes CONNECT_S and twice LIST_S
        at most."""
        if node_id not in self._known:
            await self._list()
        if node_id not in self._known:
            return NodeAnswer.ANSWERS
        if node_id not in self._last:
            return NodeAnswer.GONE
        answer = await _connect(*self._last[node_id])
        if answer is NodeAnswer.REFUSES and self._known[node_id] is not None:
            await self._list()
        if self._known.get(node_id) is not None:
            return answer
        return NodeAnswer.ENDED if answer is NodeAnswer.REFUSES else NodeAnswer.GONE

    async def _list(self) -> None:
        """Take in Ray's list; keep the one before if Ray fails or does not answer within LIST_S. A thread that Ray lets
        wait is waited for again, so that there is one at most."""
        if self._listing is None:
            self._listing = asyncio.ensure_future(asyncio.to_thread(self._addresses))
        listing = self._listing
        if (await asyncio.wait({listing}, timeout=LIST_S))[0]:
            self._listing = None
            if (error := listing.exception()) is not None:
                _log.warning("Ray does not list its nodes; asking again with the next question", error=str(error))
                return
            self._known = dict(listing.result())
            self._last |= {node_id: address for node_id, address in self._known.items() if address is not None}


async def _connect(host: str, port: int) -> NodeAnswer:
    try:
        _, writer = await within(CONNECT_S, asyncio.open_connection(host, port))
    except ConnectionRefusedError:
        return NodeAnswer.REFUSES
    except (OSError, TimeoutError):
        return NodeAnswer.UNREACHABLE
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return NodeAnswer.ANSWERS
