"""Decides when a lost actor is replaced: at once, unless one after the other dies before it has done any work."""

from __future__ import annotations

from penstock.cluster.events import SetTimer, Timer

FORGET_LOSSES_MS = 60_000
"""Milliseconds without such a loss after which the next lost actor is replaced at once again."""
FIRST_BACKOFF_MS = 1_000
LONGEST_BACKOFF_MS = 30_000


class Replacements:
    """The part of the coordinator's state machine that waits between the replacements of a crash loop."""

    def __init__(self) -> None:
        self._losses = 0
        self._failure: str | None = None
        self.backing_off = False
        """True while no actor is started."""

    def actor_lost(self, had_worked: bool) -> list[SetTimer]:
        """Take the loss of an actor. ``had_worked``: its tasks ran, so that another in its place is of use."""
        if had_worked:
            return []
        self._losses += 1
        timers = [SetTimer(Timer.FORGET_LOSSES, FORGET_LOSSES_MS)]
        if self._losses > 1 and not self.backing_off:
            self.backing_off = True
            delay = min(FIRST_BACKOFF_MS << min(self._losses - 2, 16), LONGEST_BACKOFF_MS)
            timers.append(SetTimer(Timer.REPLACE_ACTORS, delay))
        return timers

    def failed(self, error: str) -> list[SetTimer]:
        """Take the failure of an actor that is to be replaced. It will most likely occur again, even if the tasks ran
        before: a record that cannot be processed is read again."""
        self._failure = error.partition("\n")[0]
        return self.actor_lost(had_worked=False)

    @property
    def waits_for(self) -> str | None:
        """The explanation of the failures while no actor is started; None when there is nothing to report."""
        if not self.backing_off or self._failure is None:
            return None
        return f"stream actors keep failing; the next one is started after a pause: {self._failure}"

    def replace(self) -> None:
        """End the wait: lost actors may be replaced again."""
        self.backing_off = False

    def forget_losses(self) -> None:
        """Forget the losses so far: there was none for long."""
        self._losses = 0
        self._failure = None
