"""Shares that ``make test`` gives to its worker processes.

A share runs in one worker, from its first test to its last. Files that start Ray in the worker are grouped, since
the tests of a share use the same Ray and the same broker. Every other file is a share of its own. The longest shares
begin first, so that no worker is left with a long one at the end.
"""

from __future__ import annotations

WORKERS = 4
"""More than the two cores of a small machine: most of the time a test waits for Kafka or Ray."""
WITH_RAY = {
    "applications": (
        "tests/cluster/test_end_to_end.py",
        "tests/cluster/test_global_tables.py",
        "tests/cluster/test_lost_changelog.py",
        "tests/cluster/test_lost_session.py",
        "tests/cluster/test_new_partitions.py",
        "tests/cluster/test_outage_on_kafka.py",
        "tests/cluster/test_pattern_topics.py",
        "tests/cluster/test_queries_end_to_end.py",
        "tests/cluster/test_topology_by_hand.py",
        "tests/cluster/test_two_applications.py",
    ),
    "life cycle": (
        "tests/actors/test_on_kafka.py",
        "tests/cluster/test_deploy_end_to_end.py",
        "tests/cluster/test_http_end_to_end.py",
        "tests/cluster/test_life_end_to_end.py",
        "tests/cluster/test_live_cases.py",
        "tests/cluster/test_other_protocols.py",
        "tests/cluster/test_reset.py",
        "tests/faults/",
        "tests/security/test_application.py",
    ),
    "programs": (
        "tests/cluster/test_command_line.py",
        "tests/cluster/test_run_on_a_terminal.py",
        "tests/cluster/test_running_lock.py",
    ),
    "pipeline": ("tests/pipeline/",),
}
_LONG = (
    "tests/benchmarks/test_harness.py",
    "tests/chaos/test_kill.py",
    "tests/kafka/local_broker/test_broker.py",
    "tests/parity/test_restarts.py",
    "tests/kafka/",
    "tests/test_packaging.py",
    "tests/cluster/",
    "tests/actors/",
    "tests/cli/",
)
"""Other files that begin before the rest, in this order."""
TURNS = (*(place for places in WITH_RAY.values() for place in places), *_LONG)


def share_of(nodeid: str) -> str:
    """Returns the name of the share that has this test."""
    for share, places in WITH_RAY.items():
        if nodeid.startswith(places):
            return share
    return nodeid.partition("::")[0]


def turn_of(nodeid: str) -> int:
    """Returns the place of the test in the order of the run. Tests with the same place keep theirs."""
    return next((turn for turn, place in enumerate(TURNS) if nodeid.startswith(place)), len(TURNS))
