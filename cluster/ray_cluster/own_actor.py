"""The Ray actor of this process."""

from __future__ import annotations

import warnings

import ray
from ray.util.annotations import RayDeprecationWarning


def own_id() -> str:
    """Returns the id of the actor, which a restart keeps."""
    return str(ray.get_runtime_context().get_actor_id())


def was_restarted() -> bool:
    """Returns True if Ray has started the actor before, in another process. Asks Ray."""
    with warnings.catch_warnings():
        # Ray's own property uses another that Ray has deprecated, and would say so to our users.
        warnings.simplefilter("ignore", RayDeprecationWarning)
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)
