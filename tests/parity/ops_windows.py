"""The steps of a parity case that have to do with windows of time."""

from __future__ import annotations

from typing import Any

from penstock.topology.dsl.kgrouped_stream import KGroupedStream
from penstock.topology.dsl.session_windowed_kstream import SessionWindowedKStream
from penstock.topology.dsl.time_windowed_kstream import TimeWindowedKStream
from penstock.topology.windows import EmitStrategy, SlidingWindows, TimeWindows, UnlimitedWindows

Step = dict[str, Any]

WINDOWED = (TimeWindowedKStream, SessionWindowedKStream)
"""Streams whose aggregates are kept in stores that are no key-value stores."""


def windowed_by_time(step: Step, grouped: KGroupedStream[Any, Any]) -> Any:
    """``time_window``."""
    return grouped.windowed_by(time_windows(step)).emit_strategy(emit_strategy(step))


def time_windows(step: Step) -> TimeWindows:
    """Those of ``time_window``."""
    windows = TimeWindows.of_size_and_grace(step["size_ms"], step["grace_ms"])
    return windows.advance_by(step["advance_ms"]) if "advance_ms" in step else windows


def unlimited_windows(step: Step) -> UnlimitedWindows:
    """Those of ``unlimited_window``."""
    return UnlimitedWindows.of().start_on(step.get("start_ms", 0))


def windowed_by_difference(step: Step, grouped: KGroupedStream[Any, Any]) -> Any:
    """``sliding_window``."""
    return grouped.windowed_by(sliding_windows(step)).emit_strategy(emit_strategy(step))


def sliding_windows(step: Step) -> SlidingWindows:
    """Those of ``sliding_window``."""
    return SlidingWindows.of_time_difference_and_grace(step["size_ms"], step["grace_ms"])


def emit_strategy(step: Step) -> EmitStrategy:
    """That of a step that makes windows."""
    return EmitStrategy.on_window_close() if step.get("emit_final") else EmitStrategy.on_window_update()


def shown_key(windowed: Any, value: Any) -> str:
    """The key that ``windowed_to_stream`` gives a record."""
    return f"{windowed.key}@{windowed.window.start}/{windowed.window.end}"
