"""Moments of a hand-over at which the driver of a backfill can be made to die, with all that it has started."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from penstock.checkpoints.hand_overs import HandOverWriter
from penstock.pipeline.backfill.hand_over import KafkaHandOver
from penstock.pipeline.backfill.work import Run

MOMENTS: dict[str, tuple[type, str, bool]] = {
    "stages finished": (KafkaHandOver, "note", True),
    "noted": (KafkaHandOver, "note", False),
    "results written": (KafkaHandOver, "results", False),
    "state written": (KafkaHandOver, "state", False),
    "before the manifest": (HandOverWriter, "commit", True),
    "after the manifest": (HandOverWriter, "commit", False),
    "before the offsets": (KafkaHandOver, "offsets", True),
    "after the offsets": (KafkaHandOver, "offsets", False),
    "before the work is deleted": (Run, "delete", True),
}
"""Class and method, and True if the driver dies before the call, False if after it."""


def arm(folder: str) -> None:
    """Let this process and its group die once at the moment that the file ``driver`` in ``folder`` names."""
    order = Path(folder, "driver")
    if not order.exists():
        return
    owner, name, before = MOMENTS[order.read_text()]
    call = getattr(owner, name)

    def dying(*given: Any) -> None:
        if not before:
            call(*given)
        order.unlink()
        os.killpg(0, signal.SIGKILL)

    setattr(owner, name, dying)
