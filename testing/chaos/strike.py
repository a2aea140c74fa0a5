"""Injects the faults of a schedule: into processes, nodes, the broker, the group, and files."""

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

from penstock.common.errors import BrokerUnreachableError
from penstock.kafka.local_broker.disturbances import elect_preferred_leaders, join_idle
from penstock.testing.chaos import sabotage
from penstock.testing.chaos.feeder import write
from penstock.testing.chaos.network import Network, Trouble
from penstock.testing.chaos.program import Program
from penstock.testing.chaos.proxy import Flow, Proxy, of_processes
from penstock.testing.chaos.rig import APPLICATION, Rig, Role
from penstock.testing.chaos.schedule import LASTING, OF_NETWORK, OUTAGES, Fault, Kind

_LOOK_EACH_S = 0.1
_STANDS_S = 2.0
_ZOMBIE_WRITES_S = 3.0
_VICTIMS = {
    Kind.KILL_STREAM_ACTOR: Role.STREAM_ACTOR,
    Kind.KILL_STREAM_ACTORS: Role.STREAM_ACTOR,
    Kind.FREEZE_STREAM_ACTOR: Role.STREAM_ACTOR,
    Kind.EXPIRE_TRANSACTION: Role.STREAM_ACTOR,
    Kind.DAMAGE_STORES: Role.STREAM_ACTOR,
    Kind.FILL_DISK: Role.STREAM_ACTOR,
    Kind.ZOMBIE: Role.STREAM_ACTOR,
    Kind.CUT_STREAM_ACTOR: Role.STREAM_ACTOR,
    Kind.SILENCE_STREAM_ACTOR: Role.STREAM_ACTOR,
    Kind.CUT_COORDINATOR: Role.COORDINATOR,
    Kind.KILL_COORDINATOR: Role.COORDINATOR,
    Kind.FREEZE_COORDINATOR: Role.COORDINATOR,
    Kind.KILL_HTTP_ACTOR: Role.HTTP_ACTOR,
}


def _slow(pick: int, proxy: Proxy) -> None:
    """Delay bytes by 20 to 300 ms each way, and unsteadily."""
    flow = Flow(delay_s=0.02 + pick % 280 / 1000, jitter_s=0.05)
    proxy.shape(flow, flow)


class _Agenda:
    """Work to be done, by time. Doing it may add to it."""

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
    """``show`` gets a line about each fault. ``struck`` counts them; ``poisoned`` the records that were written."""

    def __init__(self, rig: Rig, program: Program, show: Callable[[str], None]) -> None:
        self.struck = 0
        self.poisoned = 0
        self._rig = rig
        self._program = program
        self._show = show
        self._agenda = _Agenda()
        self._frozen: list[psutil.Process] = []
        self._without_room: list[psutil.Process] = []
        # A broker needs seconds to start, and a group to let a member in; other faults continue meanwhile.
        self._outages = ThreadPoolExecutor(1, "chaos-broker")
        self._others = ThreadPoolExecutor(3, "chaos")
        self._under_way: list[Future[None]] = []
        self._hurry = threading.Event()

    def strike(self, faults: Iterable[Fault], ended: Callable[[], bool]) -> None:
        """Inject all faults, each at its time; returns when the last is over and everything is awake and up again.

        ``ended``: returns True when the application has ended; then no more faults are injected.
        """
        for fault in faults:
            self._agenda.add(fault.at_s, partial(self._begin, fault))
        begin = time.monotonic()
        with self._healthy_at_the_end():
            while (at_s := self._agenda.next_s()) is not None and not ended():
                left_s = begin + at_s - time.monotonic()
                if left_s > 0:
                    time.sleep(min(left_s, _LOOK_EACH_S))
                else:
                    self._agenda.pop()()

    @contextlib.contextmanager
    def _healthy_at_the_end(self) -> Iterator[None]:
        try:
            with self._outages, self._others:
                try:
                    yield
                finally:
                    self._hurry.set()
        finally:
            for process in list(self._frozen):
                self._wake(process)
            for process in self._without_room:
                sabotage.make_room(process)
            for end in self._rig.given_up:
                end()
            if self._rig.network is not None:
                self._rig.network.heal()
        for done in self._under_way:
            done.result()

    def _begin(self, fault: Fault) -> None:
        self.struck += 1
        if fault.kind in OUTAGES:
            self._under_way.append(self._outages.submit(self._outage, fault))
        elif fault.kind in _VICTIMS:
            for victim in self._victims(fault):
                # It may have ended by itself since we looked.
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._hurt(fault, victim)
        elif fault.kind in OF_NETWORK:
            self._trouble(fault, partial(_slow, fault.pick))
        elif fault.kind is Kind.LOSE_NODE:
            self._show(f"{fault} ({self._rig.lose_node(fault.pick)})")
            self._another_node()
        elif fault.kind is Kind.KILL_RAYLET:
            raylet = self._rig.raylet(fault.pick)
            self._show(f"{fault} (pid {raylet.pid})")
            self._rig.lose_raylet(raylet)
            self._another_node()
        elif fault.kind is Kind.FREEZE_RAYLET:
            self._freeze(fault, self._rig.raylet(fault.pick))
        else:
            in_background = {
                Kind.REBALANCE: self._rebalance,
                Kind.POISON: self._poison,
                Kind.ELECT_LEADERS: self._elect,
            }
            self._under_way.append(self._others.submit(in_background[fault.kind], fault))

    def _victims(self, fault: Fault) -> list[psutil.Process]:
        found = self._rig.processes(_VICTIMS[fault.kind])
        if fault.kind in LASTING or fault.kind is Kind.DAMAGE_STORES:
            found = [process for process in found if process not in self._frozen]
        if not found:
            self._show(f"{fault}: there is none at this moment")
            return []
        return found if fault.kind is Kind.KILL_STREAM_ACTORS else [found[fault.pick % len(found)]]

    def _hurt(self, fault: Fault, victim: psutil.Process) -> None:
        if fault.kind is Kind.DAMAGE_STORES:
            self._damage(fault, victim)
        elif fault.kind is Kind.FILL_DISK:
            self._show(f"{fault} (pid {victim.pid})")
            sabotage.fill_disk(victim)
            self._without_room.append(victim)
            self._agenda.add(fault.ends_s, partial(sabotage.make_room, victim))
        elif fault.kind is Kind.ZOMBIE:
            raylet = psutil.Process(victim.ppid())
            end = self._rig.give_up(raylet)
            self._freeze(fault, victim)
            raylet.suspend()  # killed, it would take the actor with it
            self._agenda.add(fault.ends_s + _ZOMBIE_WRITES_S, end)
            self._another_node()
        elif fault.kind in OF_NETWORK:
            which = of_processes([victim.pid])
            silent = fault.kind is Kind.SILENCE_STREAM_ACTOR
            self._trouble(fault, partial(Proxy.black_hole if silent else Proxy.cut, which=which), f"pid {victim.pid}")
        elif fault.kind in LASTING:
            self._freeze(fault, victim)
        else:
            self._show(f"{fault} (pid {victim.pid})")
            victim.kill()

    def _freeze(self, fault: Fault, victim: psutil.Process) -> None:
        self._show(f"{fault} (pid {victim.pid})")
        victim.suspend()
        self._frozen.append(victim)
        self._agenda.add(fault.ends_s, partial(self._wake, victim))

    def _wake(self, process: psutil.Process) -> None:
        if process not in self._frozen:  # a raylet that was frozen, and lost
            return
        self._frozen.remove(process)
        with contextlib.suppress(psutil.NoSuchProcess):  # killed while it was stopped
            process.resume()
            self._show(f"woken: pid {process.pid}")

    def _damage(self, fault: Fault, victim: psutil.Process) -> None:
        """Damage its files while it is stopped: it must not notice, nor write over them."""
        victim.suspend()
        deadline = time.monotonic() + _STANDS_S
        while victim.status() != psutil.STATUS_STOPPED and time.monotonic() < deadline:
            time.sleep(_LOOK_EACH_S / 10)
        done = sabotage.damage(sabotage.open_databases(victim), fault.pick)
        self._show(f"{fault} (pid {victim.pid}: {', '.join(done) or 'it has none'})")
        victim.kill()

    def _trouble(self, fault: Fault, trouble: Trouble, whom: str = "all") -> None:
        network = self._rig.network
        assert network is not None  # else these kinds would not be drawn
        if fault.kind is Kind.RESET_CONNECTIONS:
            self._show(f"{fault} ({network.reset()})")
            return
        self._show(f"{fault} ({whom})")
        network.begin(trouble)
        self._agenda.add(fault.ends_s, partial(self._pass_again, fault, network, trouble))

    def _pass_again(self, fault: Fault, network: Network, trouble: Trouble) -> None:
        network.end(trouble)
        self._show(f"over: {fault.kind.value}")

    def _another_node(self) -> None:
        self._rig.add_node()
        self._show("another node has come")

    def _rebalance(self, fault: Fault) -> None:
        self._show(f"{fault}")
        address, topics = self._rig.clients.bootstrap_servers, list(self._rig.plan.topics)
        given = join_idle(address, APPLICATION, topics, fault.lasts_s, self._hurry)
        self._show(f"the other member has left; it had {given} partitions")

    def _poison(self, fault: Fault) -> None:
        records = list(self._program.poison())
        self._show(f"{fault} ({len(records)})")
        write(self._rig.clients, records)
        self.poisoned += len(records)

    def _elect(self, fault: Fault) -> None:
        try:
            moved = f"{elect_preferred_leaders(self._rig.clients.bootstrap_servers)} moved"
        except BrokerUnreachableError as error:  # an outage may begin meanwhile
            moved = str(error)
        self._show(f"{fault} ({moved})")

    def _outage(self, fault: Fault) -> None:
        broker = self._rig.broker
        nodes = broker.status().nodes
        node = nodes[fault.pick % len(nodes)]
        self._show(f"{fault} (node {node.address.node_id} of {len(nodes)})")
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
        self._show("the broker answers again")
