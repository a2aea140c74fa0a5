"""Finds actors that do not carry out an assignment although they wait for nothing."""

from __future__ import annotations

from collections.abc import Callable

from penstock.actors.orders import Stop
from penstock.actors.status import ActorStatus
from penstock.cluster.environment import RELEASE_S, ActorHandle, ActorLostError
from penstock.common.within import within

SILENT_S = 5.0
"""Reports come each half second. An actor that gives none for longer works on a record, or is frozen."""


class OverdueOrders:
    """The assignments that actors have been sent and have not confirmed yet, by ``clock_s``.

    An actor may need a broker, or this coordinator, to release a task. Both may be away for any time, and nothing is
    lost by waiting, so the time in which the actor reports that it waits does not count. Nor does time without a
    report: :mod:`penstock.cluster.watchers.silence` judges that.
    """

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._since_s: dict[str, float] = {}
        self._reported_s: dict[str, float] = {}
        self._epochs: dict[str, int] = {}

    def assignment_sent(self, name: str, epoch: int) -> None:
        """The assignment of this epoch is on its way to the actor."""
        self._epochs[name] = epoch
        self._since_s[name] = self._reported_s[name] = self._clock_s()

    def carried_out(self, name: str, epoch: int) -> None:
        """The actor has confirmed the assignment of this epoch. One that was sent later is still under way."""
        if epoch >= self._epochs.get(name, epoch):
            self.forget(name)

    def forget(self, name: str) -> None:
        """Nothing is expected of the actor any more."""
        self._epochs.pop(name, None)
        self._since_s.pop(name, None)
        self._reported_s.pop(name, None)

    def reported(self, status: ActorStatus) -> str | None:
        """Takes a status; returns the reason why the actor must be replaced, None if it need not."""
        name, now = status.actor_id, self._clock_s()
        if name not in self._since_s:
            return None
        silent_s, self._reported_s[name] = now - self._reported_s[name], now
        if status.waits or silent_s > SILENT_S:
            self._since_s[name] = now
        elif now - self._since_s[name] >= RELEASE_S:
            return f"it has not applied its assignment within {RELEASE_S:.0f} s although it waits for nothing"
        return None


async def stopped(handle: ActorHandle) -> bool:
    """Stops the actor; returns True if its last commit is in doubt. Raises ActorLostError after RELEASE_S, even if the
    actor waits for a broker, because an actor that is stopped must end."""
    try:
        return await within(RELEASE_S, handle.insist(Stop()))
    except TimeoutError:
        raise ActorLostError(f"it has not stopped within {RELEASE_S:.0f} s") from None
