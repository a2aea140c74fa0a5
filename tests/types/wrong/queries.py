"""Faults in questions to stores: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

KINDS = ps.QueryableStoreTypes


def ask(app: ps.KafkaStreams) -> None:
    """Asks for what the views do not have."""
    counts: ps.ReadOnlyKeyValueStore[str, int] = app.store("counts")
    counts.get(7)  # error
    counts.get("a").bit_length()  # error
    counts.put("a", 1)  # error
    windows: ps.ReadOnlyWindowStore[str, int] = app.store("windows", KINDS.window_store())
    windows.fetch("a")  # error
    windows.fetch(key="a", time_from=0)  # error
    windows.fetch("a", 0).bit_length()  # error
    windows.put("a", 1, 0)  # error
    windows.find_sessions("a", 0, 9)  # error
    sessions: ps.ReadOnlySessionStore[str, int] = app.store("sessions", KINDS.window_store())  # error
    sessions.fetch(7)  # error
    names: ps.ReadOnlyVersionedKeyValueStore[str, str] = app.store("names", KINDS.versioned_key_value_store())
    names.history("a", 0, 9, True)  # error
    app.store("counts", "window_store")  # error
    app.store("counts", position_bound=ps.Position.empty_position())  # error
    app.query(ps.KeyQuery("a"))  # error
