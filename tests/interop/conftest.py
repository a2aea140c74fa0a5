"""A Ray whose workers find the programs of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.own_ray import own_or_running_ray


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        yield from own_or_running_ray()
