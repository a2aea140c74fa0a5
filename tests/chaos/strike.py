"""Does what a schedule says: kills, freezes and wakes processes, stops and starts the broker."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import psutil

from tests.chaos.rig import Rig, Role
from tests.chaos.schedule import OUTAGES, Fault, Kind

_LOOK_EACH_S = 0.1
_VICTIMS = {
    Kind.KILL_STREAM_ACTOR: Role.STREAM_ACTOR,
    Kind.KILL_STREAM_ACTORS: Role.STREAM_ACTOR,
    Kind.FREEZE_STREAM_ACTOR: Role.STREAM_ACTOR,
    Kind.KILL_COORDINATOR: Role.COORDINATOR,
    Kind.FREEZE_COORDINATOR: Role.COORDINATOR,
    Kind.KILL_HTTP_ACTOR: Role.HTTP_ACTOR,
}


class _Agenda:
    """What is to be done, by time. Doing it may add to it."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._added = itertools.count()

    def add(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._entries, (at_s, next(self._added), act))

    def next_s(self) -> float | None:
        return self._entries[0][0] if self._entries else None

    def pop(self) -> Callable[[], None]:
        return heapq.heappop(self._entries)[2]


class Striker:
    """``tell`` hears of each thing that is done. ``struck`` counts them."""

    def __init__(self, rig: Rig, tell: Callable[[str], None]) -> None:
        self.struck = 0
        self._rig = rig
        self._tell = tell
        self._agenda = _Agenda()
        self._frozen: list[psutil.Process] = []
        # The broker needs seconds to start, in which other faults go on.
        self._pool = ThreadPoolExecutor(1, "chaos-broker")
        self._outages: list[Future[None]] = []
        self._hurry = threading.Event()

    def strike(self, faults: Iterable[Fault], ended: Callable[[], bool]) -> None:
        """All faults, each at its time; returns when the last is over and everything is awake and up again.

        ``ended``: the application is done for, so that nothing more needs to be done to it.
        """
        for fault in faults:
            self._agenda.add(fault.at_s, partial(self._begin, fault))
        begin = time.monotonic()
        with self._up_and_awake_in_the_end():
            while (at_s := self._agenda.next_s()) is not None and not ended():
                left_s = begin + at_s - time.monotonic()
                if left_s > 0:
                    time.sleep(min(left_s, _LOOK_EACH_S))
                else:
                    self._agenda.pop()()

    @contextlib.contextmanager
    def _up_and_awake_in_the_end(self) -> Iterator[None]:
        try:
            with self._pool:
                try:
                    yield
                finally:
                    self._hurry.set()
        finally:
            for process in list(self._frozen):
                self._wake(process)
        for outage in self._outages:
            outage.result()

    def _begin(self, fault: Fault) -> None:
        self.struck += 1
        if fault.kind in OUTAGES:
            self._outages.append(self._pool.submit(self._outage, fault))
            return
        if fault.kind is Kind.LOSE_NODE:
            self._lose_node(fault)
            return
        for victim in self._victims(fault):
            self._tell(f"{fault} (pid {victim.pid})")
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended by itself since we looked
                if fault.lasts_s:
                    victim.suspend()
                    self._frozen.append(victim)
                    self._agenda.add(fault.ends_s, partial(self._wake, victim))
                else:
                    victim.kill()

    def _victims(self, fault: Fault) -> list[psutil.Process]:
        found = self._rig.processes(_VICTIMS[fault.kind])
        if fault.lasts_s:
            found = [process for process in found if process not in self._frozen]
        if not found:
            self._tell(f"{fault}: there is none at this moment")
            return []
        return found if fault.kind is Kind.KILL_STREAM_ACTORS else [found[fault.pick % len(found)]]

    def _wake(self, process: psutil.Process) -> None:
        self._frozen.remove(process)
        with contextlib.suppress(psutil.NoSuchProcess):  # killed while it stood
            process.resume()
            self._tell(f"woken: pid {process.pid}")

    def _lose_node(self, fault: Fault) -> None:
        self._tell(f"{fault} ({self._rig.lose_node(fault.pick)})")
        self._rig.add_node()
        self._tell("another node has come")

    def _outage(self, fault: Fault) -> None:
        broker = self._rig.broker
        nodes = broker.status().nodes
        node = nodes[fault.pick % len(nodes)]
        self._tell(f"{fault} (node {node.address.node_id} of {len(nodes)})")
        assert node.pid is not None
        process = psutil.Process(node.pid)
        if fault.kind is Kind.FREEZE_BROKER:
            process.suspend()
            self._hurry.wait(fault.lasts_s)
            process.resume()
        else:
            if fault.kind is Kind.KILL_BROKER:
                process.kill()
            else:
                process.terminate()
            psutil.wait_procs([process])
            self._hurry.wait(fault.lasts_s)
            broker.start()
        self._tell("the broker answers again")
