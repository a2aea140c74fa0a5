"""``Suppressed``: the settings that it accepts, and those that it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps

STRINGS = ps.Serdes.string()
LONGS = ps.Serdes.long()
IN: ps.Consumed[str, str] = ps.Consumed.with_(STRINGS, STRINGS)
UNBOUNDED = ps.BufferConfig.unbounded()
WRONG: Any = "wrong"
EAGER: Any = ps.BufferConfig.max_records(5)


def test_windows_that_do_not_close_cannot_be_waited_for() -> None:
    plain = ps.StreamsBuilder().table("in", IN).map_values(str.upper)
    until: Any = ps.Suppressed.until_window_closes(UNBOUNDED)
    with pytest.raises(ps.TopologyError, match=r"has none: .*KTABLE-SOURCE.* -> KTABLE-MAPVALUES-0000000003"):
        plain.suppress(until)


def test_the_longest_grace_of_all_windows_upward_counts() -> None:
    def windowed(builder: ps.StreamsBuilder, topic: str, grace: int) -> ps.KTable[ps.Windowed[str], int]:
        windows = ps.TimeWindows.of_size_and_grace(10, grace)
        return builder.stream(topic, IN).group_by_key().windowed_by(windows).count()

    builder = ps.StreamsBuilder()
    joined = windowed(builder, "in", 3).join(windowed(builder, "in2", 8), lambda one, other: one + other)
    until = ps.Suppressed.until_window_closes(UNBOUNDED).with_name("final")
    joined.filter(lambda value: True).suppress(until).to_stream(lambda key, value: str(key)).to(
        "out", ps.Produced.with_(STRINGS, LONGS)
    )
    (waits,) = [node for sub in builder.build().subtopologies for node in sub.nodes if node.name == "final"]
    assert getattr(waits, "operator").wait_ms == 8  # noqa: B009  # of whatever kind the node is


@pytest.mark.parametrize(
    ("make", "reported"),
    [
        (lambda: ps.BufferConfig.max_records(-1), "max_records must be a whole number from 0 on, not -1"),
        (lambda: ps.BufferConfig.max_bytes(True), "max_bytes must be a whole number from 0 on, not True"),
        (lambda: UNBOUNDED.with_max_records(WRONG), "max_records must be a whole number from 0 on, not 'wrong'"),
        (lambda: ps.Suppressed.until_time_limit(1, WRONG), "needs a BufferConfig, not 'wrong'"),
        (lambda: ps.Suppressed.until_window_closes(EAGER), "add .shut_down_when_full()"),
        (lambda: ps.Suppressed.until_time_limit(1, UNBOUNDED).with_name("a b"), "illegal name 'a b'"),
        (lambda: ps.StreamsBuilder().table("in").suppress(WRONG), "suppress needs a Suppressed, not 'wrong'"),
    ],
)
def test_impossible_settings_are_refused_in_words(make: Callable[[], Any], reported: str) -> None:
    with pytest.raises(ps.TopologyError, match=reported):
        make()


def test_a_limit_that_is_no_duration_is_refused_as_everywhere() -> None:
    with pytest.raises(ValueError, match=r"until_time_limit: limit may not be negative: -1 ms"):
        ps.Suppressed.until_time_limit(-1, UNBOUNDED)
    with pytest.raises(TypeError, match=r"until_time_limit: limit must be a timedelta or whole milliseconds"):
        ps.Suppressed.until_time_limit(WRONG, UNBOUNDED)


def test_a_config_keeps_earlier_settings() -> None:
    config = ps.BufferConfig.max_records(5).with_logging_enabled({"a": "b"}).with_max_bytes(9).shut_down_when_full()
    assert config == ps.StrictBufferConfig(5, 9, True, {"a": "b"})
    assert config.with_no_bound() == ps.StrictBufferConfig(topic_config={"a": "b"})
    off = config.with_logging_disabled().emit_early_when_full()
    assert off == ps.EagerBufferConfig(5, 9, logging=False)
    assert off.with_no_bound().with_max_records(1).logging is False
