"""Suppressed tables: keys and values stay what they are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_type

import penstock as ps

builder = ps.StreamsBuilder()
clicks = builder.stream("clicks", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))
counts = clicks.group_by_key().count()
per_minute = clicks.group_by_key().windowed_by(ps.TimeWindows.of_size_with_no_grace(60_000)).count()

eager = ps.BufferConfig.max_records(1000).with_max_bytes(1 << 20)
assert_type(eager, ps.EagerBufferConfig)
strict = eager.shut_down_when_full()
assert_type(strict, ps.StrictBufferConfig)
assert_type(strict.with_max_records(5).with_logging_disabled(), ps.StrictBufferConfig)
assert_type(strict.with_no_bound(), ps.StrictBufferConfig)
assert_type(strict.emit_early_when_full(), ps.EagerBufferConfig)
assert_type(ps.BufferConfig.unbounded().with_logging_enabled({"segment.ms": "1000"}), ps.StrictBufferConfig)

assert_type(counts.suppress(ps.Suppressed.until_time_limit(timedelta(seconds=5), eager)), ps.KTable[str, int])
assert_type(counts.suppress(ps.Suppressed.until_time_limit(5_000, strict).with_name("calm")), ps.KTable[str, int])
calm: ps.Suppressed[str] = ps.Suppressed.until_time_limit(5_000, eager)
counts.suppress(calm)

final = ps.Suppressed.until_window_closes(strict)
assert_type(final, ps.Suppressed[ps.Windowed[Any]])
assert_type(per_minute.suppress(final), ps.KTable[ps.Windowed[str], int])
assert_type(per_minute.suppress(final.with_name("final")), ps.KTable[ps.Windowed[str], int])
assert_type(per_minute.suppress(ps.Suppressed.until_time_limit(5, eager)), ps.KTable[ps.Windowed[str], int])
