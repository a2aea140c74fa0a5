"""A Ray whose workers find the programs of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.own_ray import own_or_running_ray


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:  # only while Ray starts, whose workers keep it
            patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
            stack.enter_context(contextmanager(own_or_running_ray)())
        yield
