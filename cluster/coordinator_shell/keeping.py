"""Values of the coordinator that Ray keeps, saved while Ray's key-value store may be away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ray.exceptions import RayError
from structlog.stdlib import BoundLogger

_AGAIN_S = 5.0


async def until_kept(save: Callable[[], None], log: BoundLogger) -> None:
    """Run ``save`` in a thread, again after each RayError, until it succeeds. The application runs meanwhile: it
    needs the value only when Ray restarts the coordinator."""
    told = False
    while True:
        try:
            return await asyncio.to_thread(save)
        except RayError as error:
            if not told:
                log.error("Ray keeps no values", error=str(error))
                told = True
            await asyncio.sleep(_AGAIN_S)
