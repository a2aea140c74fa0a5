"""Ports for tests of addresses at which no server listens."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def closed_port() -> Iterator[int]:
    """Yields a port of the loopback that refuses connections. No other process can get it before the block ends."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))  # and does not listen
        yield holder.getsockname()[1]
