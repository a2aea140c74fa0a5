"""A Ray whose workers find the programs of these tests, and a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.interop.java_application import JavaApplication
from tests.own_ray import own_or_running_ray


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:  # only while Ray starts, whose workers keep it
            patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
            stack.enter_context(contextmanager(own_or_running_ray)())
        yield


@pytest.fixture(scope="session")
def java() -> Iterator[JavaApplication]:
    """A JVM that runs one application at a time."""
    with JavaApplication() as it:
        yield it
