"""A Ray for the test process alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray


@contextmanager
def own_ray(**more: Any) -> Iterator[None]:
    """Runs a Ray with four CPUs on any machine. ``more``: arguments of ``ray.init``."""
    ray.init(
        address="local", num_cpus=4, namespace="penstock", include_dashboard=False, log_to_driver=False,
        object_store_memory=100_000_000, **more,
    )  # fmt: skip
    try:
        yield
    finally:
        ray.shutdown()


def own_or_running_ray() -> Iterator[None]:
    """For a fixture: uses the Ray that other tests have started, or else runs one."""
    if ray.is_initialized():
        yield
    else:
        with own_ray():
            yield
