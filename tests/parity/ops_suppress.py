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
        until: Suppressed[Any] = (
            Suppressed.until_time_limit(step["wait_ms"], _buffer(step))
            if "wait_ms" in step
            else Suppressed.until_window_closes(BufferConfig.unbounded())
        )
        return replace(
            source, stream=source.stream.suppress(until.with_name(step["named"]) if "named" in step else until)
        )


def _buffer(step: dict[str, Any]) -> BufferConfig:
    """One with limits emits early."""
    config: BufferConfig = BufferConfig.unbounded()
    if "max_records" in step:
        config = config.emit_early_when_full().with_max_records(step["max_records"])
    if "max_bytes" in step:
        config = config.emit_early_when_full().with_max_bytes(step["max_bytes"])
    return config
