"""How ``make test`` shares the tests out between its two processes.

All that starts Ray is one piece of work: it waits more than it computes, shares one Ray and one broker, and never meets
another test's Ray. The other process takes the rest meanwhile, file by file; who is done first takes what is left.
"""

from __future__ import annotations

WITH_RAY = "tests with Ray"
_PLACES = (
    "tests/actors/test_on_kafka.py",
    "tests/benchmarks/",
    "tests/chaos/",
    "tests/cluster/",
    "tests/elastic/",
    "tests/faults/",
    "tests/pipeline/",
    "tests/security/",
)


def piece_of(nodeid: str) -> str:
    """The piece of work that a test belongs to: ``WITH_RAY``, or its file."""
    return WITH_RAY if nodeid.startswith(_PLACES) else nodeid.partition("::")[0]
