from penstock.state.windowed.plain_session_lists import SessionLists as SessionLists
from penstock.state.windowed.plain_session_lists import session_row as session_row

def session_end(key: bytes) -> int: ...
