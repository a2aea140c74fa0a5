"""Sets the listeners and handlers of an application before its start: for its states, its restores, its errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.client.state_watcher import StateListener
from penstock.common.errors import ApplicationStateError, TopologyError
from penstock.common.handlers import UncaughtExceptionHandler
from penstock.common.restore_listener import StateRestoreListener
from penstock.common.shown import shown_with_type
from penstock.common.standby_listener import StandbyUpdateListener
from penstock.topology.arity import checked_function


class BeforeStart:
    """The part of :class:`~penstock.cluster.client.kafka_streams.KafkaStreams` that is for before ``start``."""

    def __init__(self, spec: ApplicationSpec) -> None:
        self._spec = spec
        self._coordinator: Any = None
        self._closed = False
        self._listener: StateListener | None = None

    @property
    def application_id(self) -> str:
        """``application.id``."""
        return self._spec.application_id

    def set_state_listener(self, listener: StateListener | None) -> None:
        """Have ``listener(new, old)`` called at each change of state. Mirrors ``setStateListener``.

        It is called in a thread of its own, one change after the other, first with the old state CREATED; its
        exceptions are logged. A change that is undone within 0.1 s may be left out. When ``close`` returns, the
        listener has been called for the end, unless that took longer than the time limit of ``close``. None removes the
        listener. Raises ApplicationStateError after ``start``, and TopologyError for an object that cannot be called
        with these arguments.
        """
        self._refuse_after_start("the state listener")
        if listener is not None:
            checked_function(listener, "set_state_listener: listener", "new", "old")
        self._listener = listener

    def set_global_state_restore_listener(self, listener: StateRestoreListener | None) -> None:
        """Have ``listener`` called for each store that is restored, global ones too. Mirrors
        ``setGlobalStateRestoreListener``.

        A copy of it is called in each stream actor, not here, so it must be picklable. None removes the listener.
        Raises ApplicationStateError after ``start``, and TopologyError for an object that is no StateRestoreListener.
        """
        self._refuse_after_start("the restore listener")
        _check_kind("set_global_state_restore_listener", listener, StateRestoreListener)
        self._spec = replace(self._spec, restore_listener=listener)

    def set_standby_update_listener(self, listener: StandbyUpdateListener | None) -> None:
        """Have ``listener`` called for each store of a standby (KIP-988). Mirrors ``setStandbyUpdateListener``.

        A copy of it is called in each stream actor, not here, so it must be picklable. None removes the listener.
        Raises ApplicationStateError after ``start``, and TopologyError for an object that is no StandbyUpdateListener.
        """
        self._refuse_after_start("the standby update listener")
        _check_kind("set_standby_update_listener", listener, StandbyUpdateListener)
        self._spec = replace(self._spec, standby_listener=listener)

    def set_uncaught_exception_handler(self, handler: UncaughtExceptionHandler | None) -> None:
        """Have ``handler(exception)`` decide what happens to the application when a stream actor fails: it returns an
        :class:`~penstock.common.handlers.UncaughtExceptionResponse`. Mirrors ``setUncaughtExceptionHandler`` (KIP-671).

        A copy of it is called once, in the stream actor that fails, or in the coordinator if that has an error, so it
        must be picklable. Without a handler, or if it raises or returns anything else, the application ends in ERROR
        (SHUTDOWN_CLIENT), as it always does after an error of the coordinator. None removes the handler. Raises
        ApplicationStateError after ``start``, and TopologyError for an object that cannot be called with this argument.
        """
        self._refuse_after_start("the uncaught exception handler")
        if handler is not None:
            checked_function(handler, "set_uncaught_exception_handler: handler", "exception")
        self._spec = replace(self._spec, uncaught_exception_handler=handler)

    def _refuse_after_start(self, what: str) -> None:
        if self._coordinator is not None or self._closed:
            raise ApplicationStateError(
                f"application {self.application_id!r} was started or closed before: set {what} first"
            )


def _check_kind(setter: str, listener: object, kind: type) -> None:
    if listener is not None and not isinstance(listener, kind):
        raise TopologyError(
            f"{setter} takes an object of a subclass of {kind.__name__}, not {shown_with_type(listener)}"
        )
