"""The HTTP server of an application, as its coordinator knows it."""

from __future__ import annotations

import asyncio

from penstock.actors.process.process_watch import ProcessWatch
from penstock.cluster.ray_cluster.named_actors import find_http_actor
from penstock.common.log import logger
from penstock.common.within import within

_ASK_S = 10.0


class KnownHttp:
    """``address``: the address at which it listens, to be shown; None if it is not known."""

    def __init__(self, application_id: str) -> None:
        self.address: str | None = None
        self._application_id = application_id
        self._watch = ProcessWatch("HTTP server", logger(__name__))

    async def ask(self) -> None:
        """Ask the server for its address, after a restart of the coordinator."""
        try:
            handle = await asyncio.to_thread(find_http_actor, self._application_id)
            if handle is not None:
                asked = handle.known_address.options(max_task_retries=0).remote()
                self.address = await within(_ASK_S, asyncio.wrap_future(asked.future()))
        except Exception as error:  # the address is only shown, and the server sends it again when it restarts
            logger(__name__).warning("HTTP server address unavailable", error=repr(error))

    async def look_after(self) -> None:
        """End the server's process if it does not answer for long."""
        handle = await asyncio.to_thread(find_http_actor, self._application_id)
        if handle is not None:
            await self._watch.look(handle)
