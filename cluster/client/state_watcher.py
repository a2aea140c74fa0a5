"""Calls a listener at each change of an application's state, from a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from penstock.cluster.coordinator.state_transitions import states_between
from penstock.cluster.status import ApplicationState
from penstock.common.errors import ApplicationStateError
from penstock.common.log import logger

StateListener = Callable[[ApplicationState, ApplicationState], object]
"""``listener(new, old)``. Mirrors ``KafkaStreams.StateListener``."""

_LOOK_EACH_S = 0.1


class StateWatcher:
    """Looks at the state ten times a second until the application has ended, or until ``close`` reports the rest."""

    def __init__(self, application_id: str, listener: StateListener, look: Callable[[], ApplicationState]) -> None:
        self._log = logger(__name__).bind(application=application_id)
        self._listener = listener
        self._look = look
        self._state = ApplicationState.CREATED
        self._reported: queue.SimpleQueue[ApplicationState] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"penstock-state-{application_id}", daemon=True)
        self._thread.start()

    def report(self, state: ApplicationState) -> None:
        """Take ``state`` as the state of the application. From the first call on, the watcher does not poll any
        more."""
        self._reported.put(state)

    def join(self, timeout_s: float) -> None:
        """Wait until the listener was called for the end; does not wait in the listener itself."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._state.has_ended:
            reported = self._next_reported()
            if reported is not None:
                self._enter(reported)
                break
            seen = self._seen()
            if seen is not None and self._reported.empty():
                self._enter(seen)
        while not self._state.has_ended:
            self._enter(self._reported.get())

    def _next_reported(self) -> ApplicationState | None:
        # The listener is not called within this except: what it raises would be logged as raised "during handling" it.
        try:
            return self._reported.get(timeout=_LOOK_EACH_S)
        except queue.Empty:
            return None

    def _seen(self) -> ApplicationState | None:
        try:
            return self._look()
        except ApplicationStateError as error:
            # Its coordinator is being restarted: the application itself continues.
            self._log.warning("application state unavailable", error=str(error))
        except Exception as error:  # an error of Ray passes, or close() reports the end
            self._log.error("application state unavailable", exc_info=error)
        return None

    def _enter(self, seen: ApplicationState) -> None:
        """Call the listener with each state on the way, also with one that began and ended between two polls."""
        if seen is self._state:
            return
        # A state that no transition leads to is that of a restarted coordinator, unless it is the end.
        for state in states_between(self._state, seen) or ((seen,) if seen.has_ended else ()):
            old, self._state = self._state, state
            self._notify(state, old)

    def _notify(self, new: ApplicationState, old: ApplicationState) -> None:
        try:
            self._listener(new, old)
        except Exception:  # a user's function may raise anything, and the application must not end with it
            self._log.exception("state listener failed", new=new.value, old=old.value)
