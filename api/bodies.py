"""A limit to what strangers may send as a body."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 16 << 20
"""10,000 keys of 1600 bytes each."""


class LimitedBodies:
    """A body that is larger than that is not read to its end, and answered with 413."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > LARGEST_BODY:
                raise HTTPException(413, f"a body may have {LARGEST_BODY} bytes: send fewer keys at once")
            return message

        await self._app(scope, limited, send)
