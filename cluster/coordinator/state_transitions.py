"""The transitions between the states of an application."""

from __future__ import annotations

from penstock.cluster.status import ApplicationState
from penstock.common.errors import ApplicationStateError

_S = ApplicationState
_TRANSITIONS: dict[ApplicationState, set[ApplicationState]] = {
    _S.CREATED: {_S.REBALANCING, _S.PENDING_SHUTDOWN, _S.PENDING_ERROR},
    _S.REBALANCING: {_S.RUNNING, _S.PENDING_SHUTDOWN, _S.PENDING_ERROR},
    _S.RUNNING: {_S.REBALANCING, _S.PENDING_SHUTDOWN, _S.PENDING_ERROR},
    # An actor may fail in its last commit: a stop that lost data must not look like a clean one.
    _S.PENDING_SHUTDOWN: {_S.NOT_RUNNING, _S.PENDING_ERROR},
    _S.PENDING_ERROR: {_S.ERROR},
    _S.NOT_RUNNING: set(),
    _S.ERROR: set(),
}


def states_between(was: ApplicationState, now: ApplicationState) -> tuple[ApplicationState, ...]:
    """Returns the states that an application has gone through, at least, from ``was`` to ``now``, which is the last of
    them; none if no transitions lead there, as to CREATED, in which a restarted coordinator begins."""
    ways: list[tuple[ApplicationState, ...]] = [()]
    known = {was}
    while ways:
        way = ways.pop(0)
        for state in (each for each in _S if each in _TRANSITIONS[way[-1] if way else was] - known):
            if state is now:
                return (*way, state)
            known.add(state)
            ways.append((*way, state))
    return ()


def check_transition(was: ApplicationState, now: ApplicationState) -> None:
    """Raise ApplicationStateError unless ``now`` may follow ``was``."""
    if now not in _TRANSITIONS[was]:
        raise ApplicationStateError(f"an application cannot go from {was.value} to {now.value}")
