"""Known mistakes about checkpoints, planted again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.checkpoints import deletion, repository
from tests.simulation.setting import Choice
from tests.simulation.simulated_objects import DELETION_DELAY_MS, URL

Plant = Callable[[Any, str, Any], None]
CHECKPOINTED = ("state.checkpoint.uri", URL)
BESIDE_DELETIONS = Choice(
    config=(CHECKPOINTED, ("state.checkpoint.interval.ms", 1000)), faults=("kill_an_actor", "restart_a_coordinator")
)
"""Checkpoints come one after the other, and so do deletions."""


def delete_files_of_uploads_under_way(plant: Plant) -> None:
    """The coordinator takes each file that no manifest names yet for one that none will name."""
    plan = deletion.plan_deletion
    plant(repository, "plan_deletion", lambda found: plan(replace(found, now_ms=found.now_ms + DELETION_DELAY_MS)))
