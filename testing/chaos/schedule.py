"""Draws the faults of a run, with their times and durations: a function of a seed."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from penstock.testing.chaos.program import Guarantee

_PAUSE_S = (0.5, 4.5)
_FREEZE_S = (1.0, 16.0)
_BROKER_RESTS_S = 10.0  # else a broker that needs its time to start would be down most of the run


class Kind(Enum):
    """A kind of fault: what is done, and to which process."""

    KILL_STREAM_ACTOR = "kill -9 a stream actor"
    KILL_STREAM_ACTORS = "kill -9 all stream actors"
    KILL_COORDINATOR = "kill -9 the coordinator"
    KILL_HTTP_ACTOR = "kill -9 the HTTP actor"
    FREEZE_STREAM_ACTOR = "SIGSTOP a stream actor"
    FREEZE_COORDINATOR = "SIGSTOP the coordinator"
    STOP_BROKER = "stop the broker"
    KILL_BROKER = "kill -9 the broker"
    FREEZE_BROKER = "SIGSTOP the broker"
    EXPIRE_TRANSACTION = "SIGSTOP a stream actor for longer than its transaction lives"
    DAMAGE_STORES = "damage the files of a stream actor's stores and kill -9 it"
    FILL_DISK = "let no file of a stream actor grow"
    REBALANCE = "have another member join the group and leave"
    POISON = "write records that cannot be decoded"
    CUT_STREAM_ACTOR = "cut a stream actor off from the broker"
    CUT_COORDINATOR = "cut the coordinator off from the broker"
    SILENCE_STREAM_ACTOR = "let nothing pass between a stream actor and the broker"
    DELAY_CONNECTIONS = "delay all that passes between the application and the broker"
    RESET_CONNECTIONS = "reset all connections to the broker"
    ELECT_LEADERS = "move leaders to the preferred brokers"
    LOSE_NODE = "kill -9 all processes of a Ray node"
    KILL_RAYLET = "kill -9 a raylet"
    FREEZE_RAYLET = "SIGSTOP a raylet"
    ZOMBIE = "have a stream actor taken for dead and wake it when it is replaced"


ANYWHERE = (
    Kind.KILL_STREAM_ACTOR,
    Kind.KILL_STREAM_ACTORS,
    Kind.KILL_COORDINATOR,
    Kind.KILL_HTTP_ACTOR,
    Kind.FREEZE_STREAM_ACTOR,
    Kind.FREEZE_COORDINATOR,
    Kind.STOP_BROKER,
    Kind.KILL_BROKER,
    Kind.FREEZE_BROKER,
)
"""Kinds that need no more than one node of Ray and one broker, and no cooperation of the program."""
OUTAGES = frozenset({Kind.STOP_BROKER, Kind.KILL_BROKER, Kind.FREEZE_BROKER})
OF_NETWORK = frozenset(
    {
        Kind.CUT_STREAM_ACTOR,
        Kind.CUT_COORDINATOR,
        Kind.SILENCE_STREAM_ACTOR,
        Kind.DELAY_CONNECTIONS,
        Kind.RESET_CONNECTIONS,
    }
)
OF_NODES = frozenset({Kind.LOSE_NODE, Kind.KILL_RAYLET, Kind.FREEZE_RAYLET, Kind.ZOMBIE})

_LASTS_S = {
    # For frozen processes short times come as often as long ones; none of them is given up before 120 s.
    Kind.FREEZE_STREAM_ACTOR: _FREEZE_S,
    Kind.FREEZE_COORDINATOR: _FREEZE_S,
    # A silent node is given up after about 16 s.
    Kind.FREEZE_RAYLET: (1.0, 8.0),
    **dict.fromkeys(OUTAGES, (0.5, 8.0)),
    # A transaction lives for 10 s, and the broker looks each second.
    Kind.EXPIRE_TRANSACTION: (12.0, 16.0),
    # It must commit something meanwhile.
    Kind.FILL_DISK: (3.0, 8.0),
    Kind.REBALANCE: (1.0, 8.0),
    # Shorter and longer than a transaction lives; the session in the group is longer.
    Kind.CUT_STREAM_ACTOR: _FREEZE_S,
    Kind.CUT_COORDINATOR: _FREEZE_S,
    Kind.SILENCE_STREAM_ACTOR: _FREEZE_S,
    Kind.DELAY_CONNECTIONS: (2.0, 8.0),
    Kind.ZOMBIE: (24.0, 32.0),
}
LASTING = frozenset(_LASTS_S)


@dataclass(frozen=True)
class Fault:
    """One fault: ``at_s`` after the beginning, over ``lasts_s`` later (0: at once). ``pick`` chooses among victims."""

    at_s: float
    kind: Kind
    lasts_s: float
    pick: int

    @property
    def ends_s(self) -> float:
        """The time at which it is over, in seconds after the beginning."""
        return self.at_s + self.lasts_s

    def __str__(self) -> str:
        return self.kind.value + (f" for {self.lasts_s:.1f} s" if self.lasts_s else "")


def possible(nodes: int, guarantee: Guarantee, poison: bool) -> tuple[Kind, ...]:
    """Returns the kinds that make sense on ``nodes`` of Ray, under a guarantee, for a program with ``poison``."""
    left_out = set() if nodes > 1 else set(OF_NODES)
    if guarantee is not Guarantee.EXACTLY:
        # One broker has all leaders.
        left_out |= {Kind.EXPIRE_TRANSACTION, Kind.ELECT_LEADERS}
    if sys.platform != "linux":
        left_out.add(Kind.FILL_DISK)
    if not poison:
        left_out.add(Kind.POISON)
    return tuple(kind for kind in Kind if kind not in left_out)


def draw(seed: int, seconds: float, kinds: Collection[Kind] = ANYWHERE) -> tuple[Fault, ...]:
    """Returns the faults that begin within ``seconds``, by time. Each of ``kinds`` comes once before one comes again.

    They overlap, except those of the broker: one outage begins well after the last one has ended.
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
    if kind not in _LASTS_S:
        return 0.0
    shortest, longest = map(math.log2, _LASTS_S[kind])
    return round(2 ** chance.uniform(shortest, longest), 1)
