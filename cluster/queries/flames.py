"""Asks a stream actor for the stacks of its process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ray.exceptions import RayError, RayTaskError

from penstock.actors.flame import LONGEST_FLAME_S, Flame, FlameRefused
from penstock.common.errors import TaskNotReadyError
from penstock.common.within import within

_ANSWERS_WITHIN_S = 15.0
"""Seconds that an actor may take longer than it looks: py-spy starts and ends, too."""


async def flame_of(actors: Mapping[str, Any], actor_id: str, seconds: float) -> Flame | FlameRefused | None:
    """Returns the stacks of one of ``actors``, which are handles by id; None if it is not among them. Raises
    TaskNotReadyError if it is lost or does not answer."""
    if actor_id not in actors:
        return None
    ref = actors[actor_id].flame.remote(seconds)
    try:
        answer: Flame | FlameRefused = await within(
            min(seconds, LONGEST_FLAME_S) + _ANSWERS_WITHIN_S, asyncio.wrap_future(ref.future())
        )
    except RayTaskError:
        raise
    except (RayError, TimeoutError):
        raise TaskNotReadyError(f"actor {actor_id} is lost, or does not answer: ask again later") from None
    return answer
