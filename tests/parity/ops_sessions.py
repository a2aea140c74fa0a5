"""The step ``session_window`` of parity cases, and the merger of sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.topology.dsl.kgrouped_stream import KGroupedStream
from penstock.topology.options.session_windows import SessionWindows
from tests.parity.ops_windows import emit_strategy

if TYPE_CHECKING:
    from tests.parity.build import Step, _Result


def merged(key: Any, one: Any, other: Any) -> Any:
    """Merges two sessions: adds longs, and joins strings with a bar."""
    return one + other if isinstance(one, int) else f"{one}|{other}"


def session_windows(step: Step) -> SessionWindows:
    """Returns the windows of a step ``session_window``."""
    return SessionWindows.of_inactivity_gap_and_grace(step["gap_ms"], step["grace_ms"])


class SessionSteps:
    """The steps of ``_Steps`` that concern sessions."""

    def _session_window(self, step: Step, source: _Result) -> _Result:
        if not isinstance(source.stream, KGroupedStream):
            raise ValueError(f"session_window cannot be called on a {type(source.stream).__name__}")
        windowed = source.stream.windowed_by(session_windows(step))
        return replace(source, stream=windowed.emit_strategy(emit_strategy(step)))
