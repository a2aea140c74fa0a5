"""A task that crashes ahead of its last commit, and every way in which it continues."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.common.ids import Sources, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.tasks.program import TaskPrograms
from penstock.testing.fake_clients import FakeClients
from tests.actors.rig import APPLICATION, STRING, Rig, follow, settle
from tests.actors.rig_coordinator import FakeCoordinator

Rows = list[tuple[str, str, str, int]]
"""(topic, key, value, timestamp)"""


def strings() -> Any:
    return ps.Consumed.with_(STRING, STRING)


class Crashing(Rig):
    """A rig with all topics of its program."""

    def __init__(self, state_dir: Path, topology: ps.Topology, **config: Any) -> None:
        super().__init__(state_dir, topology, **config)
        program = TaskPrograms(topology, self.spec.config).of(0)
        wanted = {*program.sources, *(log.topic for log in program.changelogs.values())}
        new = sorted(wanted - self.broker.topics().keys())
        self.clients.admin().create_topics([NewTopic(name, 1) for name in new])

    def under_exactly_once(self, state_dir: Path) -> Crashing:
        """Returns a rig of this application on ``state_dir``, after its guarantee was changed to exactly once."""
        changed = copy.copy(self)
        changed.clients = FakeClients(APPLICATION, self.broker, read_committed=True)
        changed.coordinator = FakeCoordinator(self.broker, True)
        changed.coordinator.join()
        entries = {"processing_guarantee": "exactly_once_v2", "state_dir": state_dir}
        changed.spec = replace(self.spec, config=self.spec.config.model_copy(update=entries))
        return changed

    def send(self, rows: Rows) -> None:
        for topic, key, value, timestamp in rows:
            self.write(topic, (key, value, timestamp))

    def reads(self, task: TaskId) -> Sources:
        sources = TaskPrograms(self.spec.topology, self.spec.config).of(task.subtopology).sources
        return {task: frozenset(TopicPartition(topic, task.partition) for topic in sources)}

    def results(self, behind: int = 0) -> list[tuple[str, str | None]]:
        records = self.broker.records("out")[behind:]
        return [((it.key or b"").decode(), None if it.value is None else it.value.decode()) for it in records]


Crashed = Callable[[ps.Topology, Rows, Rows, Rows], list[Any]]
TASK = TaskId(0, 0)


@pytest.fixture(params=["restarted", "restored", "promoted", "standby's directory reopened", "promoted on this node"])
def crashed(tmp_path: Path, request: pytest.FixtureRequest) -> Crashed:
    """Gives the results after a crash: the first rows are committed, the second processed, and the third come after it.

    The task continues on its own disk, elsewhere from the changelogs alone, or by a standby that followed all the time.
    The standby is promoted, or it is closed and its directory opened."""
    way: str = request.param

    def play(topology: ps.Topology, before: Rows, behind: Rows, then: Rows) -> list[Any]:
        rig = Crashing(tmp_path / "here", topology)
        there = rig if way.endswith("this node") else rig.on_another_node(tmp_path / "there")
        active, standby = rig.running(), there.loop(2)
        follows = way not in ("restarted", "restored")
        if follows:
            standby.assign(1, {}, rig.reads(TASK))
        for row in before:
            rig.send([row])
            settle(active)
            rig.commit(active)
            if follows:
                follow(rig, standby)
                settle(active)  # its commit interval has passed, too: the next commit is due in a while
        committed = rig.broker.committed(APPLICATION)
        for row in behind:  # one by one: records of two topics stay in this order
            rig.send([row])
            settle(active)
        if follows:
            assert all(it.lag == 0 for it in standby._standbys.status()), "else nothing is at stake"
            for _ in range(3):
                follow(rig, standby)
        assert rig.broker.committed(APPLICATION) == committed
        came_before = len(rig.results())
        active._finish("killed")
        if way == "standby's directory reopened":
            there.stop(standby)
        loop = rig.loop(3) if way == "restarted" else there.loop(3) if not way.startswith("promoted") else standby
        loop.assign(2, rig.reads(TASK))
        settle(loop)
        rig.send(then)
        settle(loop)
        rig.commit(loop)
        rig.stop(loop)
        return rig.results(came_before)

    return play
