"""Swarm testing: each run has some faults and figures, and lacks others. Those it has meet more often than if all had
their turn in each run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

_LENGTHS_S = [(0.1, 3.0), (3.0, 30.0), (30.0, 60.0), (60.0, 130.0), (130.0, 200.0), (200.0, 400.0)]
LATEST_CALL_S = 15.0
"""Shorter than the silence after which an actor is taken for dead."""
Weights = dict[str, int]
"""The weight of each fault beside the others."""


@dataclass(frozen=True)
class Swarm:
    """The figures of one run."""

    longest_idle_s: float
    """Longest time between two steps of a stream loop without work. Long ones spare the CPU empty steps."""
    longest_message_s: float
    """Longest way of a call between two processes, and of its answer."""
    late: float
    """Share of the calls to an actor that take up to ``LATEST_CALL_S``, while others pass them."""
    preempted: float
    """Share of the looks at a clock before which the thread has waited for a core."""
    longest_preemption_s: float
    tick_s: float
    """Time that passes between two looks at a clock."""
    largest_fetch: int
    """Records that a consumer gets at once."""
    same_victim: float
    """Share of the faults that strike the actor or coordinator which the last fault has struck."""
    moves_partitions: bool
    """True if each rebalance of the group gives a cluster the partitions of another, as some assignors do."""
    lengths: int
    """Faults last as long as the first so many of ``_LENGTHS_S``."""

    def length_s(self, rng: Random, most: int = len(_LENGTHS_S)) -> float:
        """Shorter and longer than each time-out."""
        return rng.uniform(*rng.choice(_LENGTHS_S[: min(most, self.lengths)]))


def drawn_swarm(rng: Random) -> Swarm:
    """Figures for one run."""
    return Swarm(
        longest_idle_s=rng.choice([0.1, 0.4, 0.8]),
        longest_message_s=rng.choice([0.05, 0.05, 0.3, 1.0]),
        late=rng.choice([0.0, 0.0, 0.05, 0.2]),
        preempted=rng.choice([0.02, 0.05, 0.3]),
        longest_preemption_s=rng.choice([0.003, 0.003, 0.3]),
        tick_s=rng.choice([0.0001, 0.0001, 0.001]),
        largest_fetch=rng.choice([5, 50, 10_000, 10_000]),
        same_victim=rng.choice([0.0, 0.5, 0.9]),
        moves_partitions=rng.random() < 0.6,
        lengths=rng.choice([1, 2, 4, len(_LENGTHS_S), len(_LENGTHS_S)]),
    )


def drawn_weights(rng: Random, faults: Iterable[str]) -> Weights:
    """Few faults of ``faults`` in some runs, nearly all in others."""
    names = sorted(faults)
    chosen = rng.sample(names, min(len(names), rng.choice([1, 2, 3, 4, 6, len(names)])))
    return {name: rng.choice([1, 1, 4]) for name in chosen}
