"""The division of the tests of ``make test`` between its two processes.

All tests that start Ray in the test's own process are one piece of work: they share one Ray and one broker. Those that
play programs with a Ray and a broker of their own are another. The two begin at once, so tests of the first piece that
a second Ray on the machine would disturb come at its end, long after the other piece is done. The rest goes file by
file to the process that has time.
"""

from __future__ import annotations

WITH_RAY = "tests with Ray"
RAYS_OF_THEIR_OWN = "tests of programs with a Ray of their own"
DISTURBED = ("tests/cluster/test_ray_clusters.py",)
"""Tests that look for the Ray clusters of the machine."""
_PLACES = {
    WITH_RAY: (
        "tests/actors/test_on_kafka.py",
        "tests/cluster/",
        "tests/faults/",
        "tests/pipeline/",
        "tests/security/",
    ),
    RAYS_OF_THEIR_OWN: ("tests/benchmarks/", "tests/chaos/", "tests/elastic/"),
}


def piece_of(nodeid: str) -> str:
    """Returns the piece of work that a test belongs to: one of those with a Ray, or its file."""
    for piece, places in _PLACES.items():
        if nodeid.startswith(places):
            return piece
    return nodeid.partition("::")[0]


def turn_of(nodeid: str) -> int:
    """Returns the turn of a test: what takes longest begins first; tests of the same turn stay as they were found."""
    turns = [*_PLACES]
    if nodeid.startswith(DISTURBED):
        return len(turns)
    piece = piece_of(nodeid)
    return turns.index(piece) if piece in turns else len(turns) + 1
