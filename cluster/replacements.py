"""When an actor that was lost is replaced: at once, unless one after the other dies before it has done any work."""

from __future__ import annotations

from penstock.cluster.events import SetTimer, Timer

FORGET_LOSSES_MS = 60_000
"""After so long without such a loss the next one is replaced at once again."""
FIRST_BACKOFF_MS = 1_000
LONGEST_BACKOFF_MS = 30_000


class Replacements:
    """The part of the coordinator's state machine that waits between the replacements of a crash loop."""

    def __init__(self) -> None:
        self._losses = 0
        self._failure: str | None = None
        self.backing_off = False
        """Whether no actor is started for now."""

    def lost(self, had_worked: bool) -> list[SetTimer]:
        """An actor is lost; ``had_worked``: its tasks ran, so another in its place will do better than nothing."""
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
        """An actor has failed, and is to be replaced. What it died of most likely comes again, be it that its tasks
        ran before: a record that cannot be processed is read once more."""
        self._failure = error.partition("\n")[0]
        return self.lost(had_worked=False)

    @property
    def waits_for(self) -> str | None:
        """What to tell of failures while no actor is started; None when there is nothing."""
        if not self.backing_off or self._failure is None:
            return None
        return f"stream actors fail one after another, the next one is started after a while: {self._failure}"

    def replace(self) -> None:
        """The time that was waited for has come."""
        self.backing_off = False

    def forget_losses(self) -> None:
        """For long nothing was lost."""
        self._losses = 0
        self._failure = None
