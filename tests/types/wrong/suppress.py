"""Faults in suppressing: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

counts = ps.StreamsBuilder().table("counts", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))
eager = ps.BufferConfig.max_records(1000)
numbers: ps.Suppressed[int] = ps.Suppressed.until_time_limit(5, eager)

counts.suppress(ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded()))  # error
counts.suppress(numbers)  # error
counts.suppress(eager)  # error
counts.suppress(ps.Suppressed.until_time_limit(5, eager)).map_values(lambda count: count.upper())  # error
ps.Suppressed.until_window_closes(eager)  # error
ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded().emit_early_when_full())  # error
ps.Suppressed.until_time_limit(5)  # error
ps.Suppressed.until_time_limit("5 s", eager)  # error
ps.BufferConfig.max_records("many")  # error
ps.BufferConfig.max_bytes(5).with_logging_enabled("segment.ms=5")  # error
