"""Which faults, when, and for how long: a function of a seed."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

_PAUSE_S = (0.5, 4.5)
_FREEZE_LOG2_S = (0.0, 4.0)  # 1 s to 16 s, short ones as often as long ones; nobody is given up before 120 s
_OUTAGE_LOG2_S = (-1.0, 3.0)
_BROKER_RESTS_S = 10.0  # else a broker that needs its time to start would be down most of the run


class Kind(Enum):
    """What is done, to whom."""

    KILL_STREAM_ACTOR = "kill -9 a stream actor"
    KILL_STREAM_ACTORS = "kill -9 all stream actors"
    KILL_COORDINATOR = "kill -9 the coordinator"
    KILL_HTTP_ACTOR = "kill -9 the HTTP actor"
    FREEZE_STREAM_ACTOR = "SIGSTOP a stream actor"
    FREEZE_COORDINATOR = "SIGSTOP the coordinator"
    STOP_BROKER = "stop the broker"
    KILL_BROKER = "kill -9 the broker"
    FREEZE_BROKER = "SIGSTOP the broker"
    LOSE_NODE = "kill -9 all processes of a Ray node"


FREEZES = frozenset({Kind.FREEZE_STREAM_ACTOR, Kind.FREEZE_COORDINATOR, Kind.FREEZE_BROKER})
OUTAGES = frozenset({Kind.STOP_BROKER, Kind.KILL_BROKER, Kind.FREEZE_BROKER})
ON_ONE_NODE = tuple(kind for kind in Kind if kind is not Kind.LOSE_NODE)


@dataclass(frozen=True)
class Fault:
    """One fault: ``at_s`` after the beginning, over ``lasts_s`` later (0: at once). ``pick`` chooses among victims."""

    at_s: float
    kind: Kind
    lasts_s: float
    pick: int

    @property
    def ends_s(self) -> float:
        """When it is over."""
        return self.at_s + self.lasts_s

    def __str__(self) -> str:
        return self.kind.value + (f" for {self.lasts_s:.1f} s" if self.lasts_s else "")


def draw(seed: int, seconds: float, kinds: Collection[Kind] = ON_ONE_NODE) -> tuple[Fault, ...]:
    """The faults that begin within ``seconds``, in order of time. Each of ``kinds`` comes once before one comes again.

    They overlap, but for those of the broker: one outage begins well after the last one has ended.
    """
    chance = random.Random(seed)
    faults: list[Fault] = []
    deck: list[Kind] = []
    broker_up_s = now_s = 0.0
    while True:
        now_s += chance.uniform(*_PAUSE_S)
        if not deck:
            deck = list(kinds)
            chance.shuffle(deck)
        kind = next((kind for kind in deck if kind not in OUTAGES or now_s >= broker_up_s), deck[0])
        deck.remove(kind)
        if kind in OUTAGES:
            now_s = max(now_s, broker_up_s)
        if now_s >= seconds:
            return tuple(faults)
        fault = Fault(round(now_s, 1), kind, _duration_s(chance, kind), chance.randrange(1 << 16))
        if kind in OUTAGES:
            broker_up_s = fault.ends_s + _BROKER_RESTS_S
        faults.append(fault)


def _duration_s(chance: random.Random, kind: Kind) -> float:
    if kind not in FREEZES | OUTAGES:
        return 0.0
    span = _OUTAGE_LOG2_S if kind in OUTAGES else _FREEZE_LOG2_S
    return round(2 ** chance.uniform(*span), 1)
