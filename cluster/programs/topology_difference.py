"""The lines in which two topologies differ, for an error of one line or a few."""

from __future__ import annotations

from difflib import unified_diff

_MOST_LINES = 8


def difference(running: str, new: str) -> str:
    """Returns the difference of two descriptions (``Topology.describe()``) as text; empty if they are the same."""
    changed = changed_lines(running, new)
    if not changed:
        return ""
    more = [f"… and {len(changed) - _MOST_LINES} more lines"] if len(changed) > _MOST_LINES else []
    return "\n".join(["It runs another topology (-) than this one (+):", *changed[:_MOST_LINES], *more])


def changed_lines(running: str, new: str) -> list[str]:
    """Returns the lines that only one of two descriptions has: ``- …`` for the running one, ``+ …`` for the new one."""
    lines = list(unified_diff(running.splitlines(), new.splitlines(), n=0, lineterm=""))[2:]
    return [f"{line[0]} {line[1:].strip()}" for line in lines if not line.startswith("@@")]
