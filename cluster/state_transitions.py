"""Which state of an application may follow which."""

from __future__ import annotations

from penstock.actors.messages import ApplicationState
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


def check_transition(was: ApplicationState, now: ApplicationState) -> None:
    """Raise ApplicationStateError unless ``now`` may follow ``was``."""
    if now not in _TRANSITIONS[was]:
        raise ApplicationStateError(f"an application cannot go from {was.value} to {now.value}")
