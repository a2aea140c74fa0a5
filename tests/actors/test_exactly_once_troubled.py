"""``exactly_once_v2`` under random faults of one actor after another: each record counts once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from penstock.actors.commits.exactly_once import transactional_id
from penstock.actors.loop.stream_loop import StreamLoop
from tests.actors.exactly_once import SHAPES, TASK, application
from tests.actors.rig import APPLICATION, CHANGELOG, count_of, settle


class Troubled:
    """Actors that are killed, fenced, refused and cut off, one after the other, on two nodes."""

    def __init__(self, tmp_path: Path, shape: str, random: Random) -> None:
        self.rig = application(tmp_path, shape)
        self.nodes = [self.rig, self.rig.on_another_node(tmp_path / "1")]
        self.random = random
        self.fed: Counter[str] = Counter()
        self.epoch = self.slot = 0
        self.loop = self.begin()
        self.happened: Counter[str] = Counter()

    def begin(self) -> StreamLoop:
        """Starts the task's next actor, after its predecessor was fenced: it has the same slot, or another."""
        if self.slot:
            self.rig.broker.init_producer(transactional_id(APPLICATION, "", self.slot))
        self.epoch, self.slot = self.epoch + 1, self.random.choice([1, 2])
        node = self.random.choice(self.nodes)
        loop = node.loop(self.slot)
        node.assign(loop, self.epoch, TASK)
        return loop

    def kill(self) -> None:
        """Acts as if the process had ended: nothing aborts its transaction or closes its stores cleanly."""
        self.loop._commits.abandon()
        self.loop._job = None
        self.loop._jobs.clear()
        self.rig.coordinator.held = None
        for hosted in self.loop._tasks.values():
            hosted.state_manager.close()
        self.loop = self.begin()

    def happen(self) -> None:
        broker, coordinator = self.rig.broker, self.rig.coordinator
        faults = {
            "kill": self.kill,
            "commit": lambda: setattr(self.rig.clock, "now_ms", self.rig.clock.now_ms + 1001),
            "coordinator restarts": coordinator.join,
            "transaction expires": broker.expire_transactions,
            "answers are lost": lambda: setattr(broker, "loses_answers", not broker.loses_answers),
            "broker is away": lambda: setattr(broker, "down", not broker.down),
            "coordinator is silent": coordinator.hold if coordinator.held is None else coordinator.release,
        }
        weights = [1, 10, 2, 1, 3, 3, 3]
        (what,) = self.random.choices(list(faults), weights)
        if broker.down and what in ("kill", "coordinator restarts"):
            return  # fencing and joining wait for the broker
        self.happened[what] += 1
        faults[what]()

    def feed(self) -> None:
        if not self.rig.broker.down:
            keys = [f"k{self.random.randrange(20)}" for _ in range(self.random.choice([1, 5, 100]))]
            self.fed.update(keys)
            self.rig.write("in", *((key, "x", 1) for key in keys))

    def rest(self) -> None:
        self.rig.broker.down = self.rig.broker.loses_answers = False
        self.rig.coordinator.release()
        for _ in range(20):
            self.rig.clock.now_ms += 10_000  # pauses after failures are over
            settle(self.loop, at_most=20_000)


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("seed", range(6))
def test_each_record_counts_once_under_random_faults(tmp_path: Path, shape: str, seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    it = Troubled(tmp_path, shape, random)
    for _ in range(60):
        if random.random() < 0.5:
            it.feed()
        for _ in range(random.choice([0, 1, 3, 10, 60])):
            it.loop.step()
            assert not it.loop.finished.done(), it.loop.finished.result()
        it.happen()
    it.rest()
    assert it.happened["commit"] > 5
    by_key: dict[str, list[int]] = {}
    for key, count in it.rig.counts():
        by_key.setdefault(key, []).append(count)
    if shape == "cached":
        assert {key: counts[-1] for key, counts in by_key.items()} == {key: 2 * n for key, n in it.fed.items()}
        assert all(counts == sorted(set(counts)) for counts in by_key.values())
    else:
        assert by_key == {key: [2 * each for each in range(1, n + 1)] for key, n in it.fed.items()}
    assert dict(it.rig.counts(CHANGELOG)) == dict(it.fed)
    assert {key: count_of(it.loop, key, committed=True) for key in it.fed} == dict(it.fed)
    assert it.rig.committed() == it.fed.total()


def test_the_troubles_are_real(tmp_path: Path) -> None:
    """Some of what was written in the runs above was aborted, or they prove little."""
    aborted = 0
    for seed in range(3):
        it = Troubled(tmp_path / str(seed), "uncached", Random(seed))
        for _ in range(60):
            it.feed()
            for _ in range(10):
                it.loop.step()
            it.happen()
        it.rest()
        aborted += len(it.rig.broker.uncommitted_records("out")) - len(it.rig.broker.records("out"))
    assert aborted > 100
