"""The step ``suppress``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from penstock.topology.dsl.ktable import KTable
from penstock.topology.options.suppressed import BufferConfig, Suppressed

B = TypeVar("B", bound=BufferConfig)


class SuppressSteps:
    """The step ``suppress``, which holds back updates of a table."""

    def _suppress(self, step: dict[str, Any], source: Any) -> Any:
        if not isinstance(source.stream, KTable):
            raise ValueError("only a table can be suppressed")
        until: Suppressed[Any] = (
            Suppressed.until_time_limit(step["wait_ms"], _buffer(step))
            if "wait_ms" in step
            else Suppressed.until_window_closes(_limited(step, BufferConfig.unbounded()))
        )
        return replace(
            source, stream=source.stream.suppress(until.with_name(step["named"]) if "named" in step else until)
        )


def _buffer(step: dict[str, Any]) -> BufferConfig:
    """Returns the buffer's configuration. One with limits emits early, unless it stops when it is full."""
    limited = "max_records" in step or "max_bytes" in step
    eager = limited and not step.get("stops_when_full", False)
    return _limited(step, BufferConfig.unbounded().emit_early_when_full() if eager else BufferConfig.unbounded())


def _limited(step: dict[str, Any], config: B) -> B:
    config = config.with_max_records(step["max_records"]) if "max_records" in step else config
    config = config.with_max_bytes(step["max_bytes"]) if "max_bytes" in step else config
    return config if step.get("logging", True) else config.with_logging_disabled()
