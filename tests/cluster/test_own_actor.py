"""An actor's question to Ray about itself."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import runtime_context
from ray._raylet import ActorID
from ray.runtime_context import RuntimeContext

from penstock.cluster.ray_cluster.own_actor import was_restarted


@pytest.mark.parametrize("restarts", [0, 1])
def test_asking_ray_whether_the_actor_was_restarted_raises_no_warning(
    restarts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker: Any = SimpleNamespace(mode=ray.WORKER_MODE, actor_id=ActorID.from_random(), check_connected=lambda: None)
    context = RuntimeContext(worker)  # type: ignore[no-untyped-call]  # untyped in Ray
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(runtime_context, "actors", lambda actor_id: {"NumRestarts": restarts})
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert was_restarted() == bool(restarts)
    assert [str(it.message) for it in heard] == []
