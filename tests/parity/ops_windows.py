"""The steps of a parity case that have to do with windows of time."""

from __future__ import annotations

from typing import Any

from penstock.topology.dsl.kgrouped_stream import KGroupedStream
from penstock.topology.dsl.session_windowed_kstream import SessionWindowedKStream
from penstock.topology.dsl.time_windowed_kstream import TimeWindowedKStream
from penstock.topology.options.windows import EmitStrategy, SlidingWindows, TimeWindows, UnlimitedWindows

Step = dict[str, Any]

WINDOWED = (TimeWindowedKStream, SessionWindowedKStream)
"""Types of streams whose aggregates are kept in other than key-value stores."""


def windowed_by_time(step: Step, grouped: KGroupedStream[Any, Any]) -> Any:
    """Returns the stream of a step ``time_window``."""
    return grouped.windowed_by(time_windows(step)).emit_strategy(emit_strategy(step))


def time_windows(step: Step) -> TimeWindows:
    """Returns the windows of a step ``time_window``."""
    windows = TimeWindows.of_size_and_grace(step["size_ms"], step["grace_ms"])
    return windows.advance_by(step["advance_ms"]) if "advance_ms" in step else windows


def unlimited_windows(step: Step) -> UnlimitedWindows:
    """Returns the windows of a step ``unlimited_window``."""
    return UnlimitedWindows.of().start_on(step.get("start_ms", 0))


def windowed_by_difference(step: Step, grouped: KGroupedStream[Any, Any]) -> Any:
    """Returns the stream of a step ``sliding_window``."""
    return grouped.windowed_by(sliding_windows(step)).emit_strategy(emit_strategy(step))


def sliding_windows(step: Step) -> SlidingWindows:
    """Returns the windows of a step ``sliding_window``."""
    return SlidingWindows.of_time_difference_and_grace(step["size_ms"], step["grace_ms"])


def emit_strategy(step: Step) -> EmitStrategy:
    """Returns the emit strategy of a step that makes windows."""
    return EmitStrategy.on_window_close() if step.get("emit_final") else EmitStrategy.on_window_update()


def shown_key(windowed: Any, value: Any) -> str:
    """Returns the key that ``windowed_to_stream`` gives a record."""
    return f"{windowed.key}@{windowed.window.start}/{windowed.window.end}"
