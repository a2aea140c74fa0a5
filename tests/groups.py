"""The division of the tests between the processes of ``make test``.

All tests that start Ray in the test's own process are one group: they share one Ray and one broker. Those that play
programs with a Ray and a broker of their own are another. The two begin at once, so tests of the first group that a
second Ray on the machine would disturb come at its end, long after the other group is done. A third group has the
tests of Kafka's clients, and others with a broker: they wait most of their time, and share one broker. Beside them,
the other processes keep both cores busy. Of the rest, each test goes to the process that has time. Tests that share
another costly fixture are a group, too; those of a file by a mark there.
"""

from __future__ import annotations

from collections.abc import Collection

WITH_RAY = "ray"
RAYS_OF_THEIR_OWN = "programs"
WITH_SPARK = "spark"
WITH_BROKER = "broker"
_SHARED = {"ray_cluster": WITH_RAY, "spark": WITH_SPARK, "secured": "secured broker", "broker": WITH_BROKER}
"""Fixtures of a whole session that are costly to start, and the groups of the tests that share each."""
OF_A_SUBMISSION = {WITH_SPARK, "secured broker"}
"""Groups whose fixture takes 20 s or more to start: their tests are of the tier ``submission`` (``tests/tiers.py``)."""
_PAGE = "tests/page/"
"""Tests that share a browser and a server."""
_CLIENTS = "tests/kafka/"
"""Tests of Kafka's clients: they wait for a broker, the shared one or one of their own."""
DISTURBED = "tests/cluster/test_ray_clusters.py"
"""Tests that look for the Ray clusters of the machine."""
_FIRST = [WITH_RAY, RAYS_OF_THEIR_OWN, WITH_SPARK, WITH_BROKER, "page", "secured broker"]
"""Groups in the order in which they begin: those that take longest first."""
_PROGRAMS = ("tests/benchmarks/", "tests/chaos/", "tests/elastic/")


def group_of(nodeid: str, fixtures: Collection[str]) -> str | None:
    """Returns the group of a test with these fixtures; None if any process may run it."""
    if nodeid.startswith(_PROGRAMS):
        return RAYS_OF_THEIR_OWN
    if nodeid.startswith(DISTURBED):
        return WITH_RAY
    if nodeid.startswith(_PAGE):
        return "page"
    shared = next((group for fixture, group in _SHARED.items() if fixture in fixtures), None)
    return WITH_BROKER if shared is None and nodeid.startswith(_CLIENTS) else shared


def turn_of(nodeid: str, group: str | None) -> int:
    """Returns the turn of a test: the groups that take longest begin first; the rest follows in the order of files."""
    if nodeid.startswith(DISTURBED):
        return len(_FIRST)
    return _FIRST.index(group) if group in _FIRST else len(_FIRST) + 1
