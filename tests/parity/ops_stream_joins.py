"""The steps of parity cases that join two streams."""

from __future__ import annotations

from typing import Any

from penstock.topology.options.join_windows import JoinWindows
from penstock.topology.options.stream_joined import StreamJoined
from tests.parity import functions


class StreamJoinSteps:
    """The step ``stream_stream``."""

    _results: dict[str, Any]

    def _stream_stream(self, step: dict[str, Any], source: Any) -> Any:
        from tests.parity.build import SERDES

        other = self._results[step["with"]]
        windows = JoinWindows.of_time_difference_and_grace(step["before_ms"], step["grace_ms"]).after(step["after_ms"])
        how = StreamJoined.with_(SERDES[source.key], SERDES[source.value], SERDES[other.value])
        how = how.with_name(step["name"]) if "name" in step else how
        how = how.with_store_name(step["store"]) if "store" in step else how
        how = how if step.get("logging", True) else how.with_logging_disabled()
        call = {"inner": "join", "left": "left_join", "outer": "outer_join"}[step["kind"]]
        stream = getattr(source.stream, call)(other.stream, functions.pair, windows, how)
        return type(source)(stream, source.key, "string")
