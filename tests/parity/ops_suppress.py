"""The step ``suppress``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.topology.dsl.ktable import KTable
from penstock.topology.suppressed import BufferConfig, Suppressed


class SuppressSteps:
    """Updates of a table that are held back."""

    def _suppress(self, step: dict[str, Any], source: Any) -> Any:
        if not isinstance(source.stream, KTable):
            raise ValueError("only a table can be suppressed")
        held = BufferConfig.unbounded()
        until: Suppressed[Any] = (
            Suppressed.until_time_limit(step["wait_ms"], held)
            if "wait_ms" in step
            else Suppressed.until_window_closes(held)
        )
        return replace(source, stream=source.stream.suppress(until))
