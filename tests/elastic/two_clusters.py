"""Two Ray clusters work for one application: ``python -m tests.elastic.two_clusters BROKER FOLDER``.

As in a rolling upgrade: the second joins while records come, and the first leaves.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from penstock.cluster.client.close_options import CloseOptions
from tests.elastic.cluster import PARTITIONS, SlowCount, ray_nodes, say
from tests.waiting import PATIENCE_S, eventually

LEAVE = CloseOptions.group_membership_operation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP)


def hosted(it: SlowCount) -> int:
    status = it.app.status()
    return 0 if status is None else len(status.placement)


def work(it: SlowCount, name: str) -> None:
    """Runs the application on a cluster of its own, until the standard input ends."""
    with ray_nodes(1):
        it.app.start()
        it.app.wait_until_running(PATIENCE_S)
        say(f"{name}: RUNNING")
        sys.stdin.readline()
        it.app.close(LEAVE)
        say(f"{name}: has left")


def main(broker: str, folder: Path) -> None:
    name = f"two-{os.getpid()}"
    it = SlowCount(broker, name, folder / "first", 0.0)
    command = [sys.executable, "-m", "tests.elastic.two_clusters", broker, str(folder / "second"), name]
    with ray_nodes(1):
        it.app.start()
        it.app.wait_until_running(PATIENCE_S)
        assert hosted(it) == PARTITIONS
        say("the first cluster has all tasks")
        with subprocess.Popen(command, stdin=subprocess.PIPE):  # at its end the second one's input is closed
            with it.fed():
                eventually(lambda: hosted(it) == PARTITIONS // 2, "half of the tasks given up")
                it.app.wait_until_running(PATIENCE_S)
                say("a second cluster has joined, each has half of the tasks")
                eventually(lambda: it.processed() > 500, "records counted by both")
                it.app.close(LEAVE)
                say("the first cluster has left")
                seen = it.processed()
                eventually(lambda: it.processed() > seen + 500, "records counted by the second alone")
            eventually(lambda: it.processed() == sum(it.sent.values()), "all counted")
        assert it.is_exact()
        say(f"{sum(it.sent.values()):,} records, each counted once")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        work(SlowCount(sys.argv[1], sys.argv[3], Path(sys.argv[2]), 0.0), "the second cluster")
    else:
        main(sys.argv[1], Path(sys.argv[2]))
