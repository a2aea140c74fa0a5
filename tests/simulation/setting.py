"""The setting of a run: all that is drawn before it begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation.programs import Program, drawn
from tests.simulation.programs import program as program_of
from tests.simulation.simulated_objects import URL, StorageSetting, drawn_storage
from tests.simulation.swarm import Swarm, Weights, drawn_swarm, drawn_weights

_ON_ROCKSDB = 0.35
_OUTLASTED = 0.15
_CHECKPOINTED = 0.5


@dataclass(frozen=True)
class Choice:
    """Parts of a run that are not left to its seed."""

    blocks: tuple[str, ...] = ()
    config: tuple[tuple[str, Any], ...] = ()
    faults: tuple[str, ...] = ()


ALL_FROM_THE_SEED = Choice()


@dataclass(frozen=True)
class Setting:
    """``partitions``: of each topic that is not global. ``on_rocksdb``: False if disks are simulated."""

    program: Program
    config: dict[str, Any]
    partitions: int
    clusters: int
    nodes: int
    cpus: int
    weights: Weights
    swarm: Swarm
    on_rocksdb: bool
    worth_a_load: int
    """A restore of so many records writes files that RocksDB takes in."""
    troubled_s: float
    fault_each_s: float
    outlasted: bool
    """True if the run waits for the ends of long outages."""
    storage: StorageSetting
    """The object storage, if there are checkpoints."""

    @property
    def exactly_once(self) -> bool:
        return bool(self.config["processing.guarantee"] == "exactly_once_v2")

    def __str__(self) -> str:
        disks = "RocksDB" if self.on_rocksdb else "simulated disks"
        return (
            f"{self.program.blocks} {self.config} {self.partitions} partitions, {self.clusters} clusters of "
            f"{self.nodes} nodes, {self.cpus} CPUs, {self.weights}, {disks}, {self.storage}"
        )


def setting_of(seed: int, choice: Choice, faults: Iterable[str]) -> Setting:
    """Follows from ``seed``, except what is chosen. The faults are among those of ``choice``, or else ``faults``."""
    rng, of_checkpoints = Random(f"setting {seed}"), Random(f"checkpoints {seed}")
    program = program_of(rng, choice.blocks) if choice.blocks else drawn(rng)
    return Setting(
        program=program,
        config={**_config(rng), **_checkpoints(of_checkpoints), **program.config, **dict(choice.config)},
        partitions=rng.choice([1, 2, 2, 3]),
        clusters=rng.choice([1, 2]),
        nodes=rng.choice([1, 1, 2, 3]),
        cpus=rng.randint(1, 3),
        weights=drawn_weights(rng, choice.faults or faults),
        swarm=drawn_swarm(rng),
        on_rocksdb=rng.random() < _ON_ROCKSDB,
        worth_a_load=rng.choice([20, 20_000]),
        troubled_s=rng.choice([40, 80, 80, 200]),
        fault_each_s=rng.choice([3.0, 10.0, 30.0]),
        outlasted=rng.random() < _OUTLASTED,
        storage=drawn_storage(of_checkpoints),
    )


def _checkpoints(rng: Random) -> dict[str, Any]:
    uri = URL if rng.random() < _CHECKPOINTED else None
    return {"state.checkpoint.uri": uri, "state.checkpoint.interval.ms": rng.choice([1000, 3000, 20_000])}


def _config(rng: Random) -> dict[str, Any]:
    return {
        "processing.guarantee": rng.choice(["at_least_once", "exactly_once_v2"]),
        "commit.interval.ms": rng.choice([100, 500, 2000, 8000]),
        "num.standby.replicas": rng.choice([0, 1, 1, 2]),
        "statestore.cache.max.bytes": rng.choice([0, 10_000_000, 10_000_000]),
    }
