"""The conditions of an application as its coordinator knows them: for users in words, for alerts in figures."""

from __future__ import annotations

from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.periodic_work import PeriodicWork
from penstock.cluster.health import Health
from penstock.cluster.status import ApplicationState

_RESTARTED = "its coordinator was restarted and asks the stream actors, which continue, for their tasks"
_OLD_MAKE_ROOM = "no CPU is free for the new version: each old actor that ends makes room for a new one"
_NO_SESSION = "the session in the consumer group is lost: no task runs until there is another"


def waits_for(
    dispatcher: Dispatcher | None, periodic: PeriodicWork | None, no_broker: str | None, restarted: bool
) -> str | None:
    """Returns what the application waits for, or None. ``restarted``: its coordinator is not the first one."""
    machine = dispatcher.machine if dispatcher is not None else None
    no_session = _NO_SESSION if machine is not None and machine.session_lost else None
    no_topic, no_cpu = (periodic.missing_topic, periodic.waits_for_cpu) if periodic is not None else (None, None)
    others = periodic.other_members if periodic is not None else None
    failures, room = (machine.waits_for, machine.makes_room) if machine is not None else (None, None)
    disks, held = (machine.unfit, machine.watch_held) if machine is not None else (None, None)
    if no_cpu is not None and machine is not None and machine.rolls_out:
        no_cpu = None if room is not None else _OLD_MAKE_ROOM
    silent = dispatcher.silent if dispatcher is not None else None
    begins = restarted and (machine is None or machine.state is ApplicationState.CREATED)
    reasons = [_RESTARTED if begins else None, no_broker, no_topic, others, no_session]
    reasons += [failures, disks, room, no_cpu, silent, held]
    return "; ".join(reason for reason in reasons if reason is not None) or None


def health_of(dispatcher: Dispatcher | None, periodic: PeriodicWork | None, no_broker: bool) -> Health:
    """Returns the conditions of an application in figures."""
    if dispatcher is None or periodic is None:
        return Health(no_broker=no_broker)
    machine = dispatcher.machine
    unfit = len(machine.unfit_nodes)
    return Health(
        dispatcher.report_ages_s, no_broker, machine.session_lost, periodic.waiting_for_cpus, unfit, periodic.losses
    )
