"""A Ray for the test process alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import ray

from penstock.cluster.client import control, http_actor, starting
from penstock.cluster.queries import actor_calls, coordinator_calls
from tests.waiting import PATIENCE_S

_LIMITS_S = {
    (starting, "_START_S"): PATIENCE_S,
    (http_actor, "_START_S"): PATIENCE_S,
    # Waits of PATIENCE_S repeat these calls, so that they must end sooner.
    (control, "_STATUS_S"): 60.0,
    (actor_calls, "CALL_S"): 60.0,
    (coordinator_calls, "CALL_S"): 60.0,
}
"""Limits of this process's calls to actors. Some are of 10 s, and a busy machine may stop an actor for as long."""


@contextmanager
def own_ray(**more: Any) -> Iterator[None]:
    """Runs a Ray with four CPUs on any machine. ``more``: arguments of ``ray.init``."""
    ray.init(
        address="local", num_cpus=4, namespace="penstock", include_dashboard=False, log_to_driver=False,
        object_store_memory=100_000_000, **more,
    )  # fmt: skip
    try:
        with pytest.MonkeyPatch.context() as patched:
            for (module, name), limit_s in _LIMITS_S.items():
                patched.setattr(module, name, limit_s)
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
