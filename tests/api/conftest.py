"""The API over a read side in memory, asked without a socket."""

from __future__ import annotations

import httpx
import pytest

from tests.api.fake import FakeReadSide, client_of


@pytest.fixture
def read_side() -> FakeReadSide:
    """An application with two stores, empty."""
    return FakeReadSide()


@pytest.fixture
def client(read_side: FakeReadSide) -> httpx.Client:
    """A client of the API over ``read_side``."""
    return client_of(read_side)
