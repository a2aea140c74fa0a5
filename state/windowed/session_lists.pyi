from penstock.state.windowed.recent_sessions import _session_row, _SessionLists

SessionLists = _SessionLists
session_row = _session_row

def session_end(key: bytes) -> int: ...
