"""The program and the settings with which a stream actor starts."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common.config import StreamsConfig
from penstock.common.handlers import UncaughtExceptionHandler
from penstock.common.restore_listener import StateRestoreListener
from penstock.common.standby_listener import StandbyUpdateListener
from penstock.topology.physical.topology import Topology


@dataclass(frozen=True)
class ApplicationSpec:
    """Everything that an actor needs to be part of an application. Cloudpickle ships it, so user functions travel with
    it."""

    topology: Topology
    config: StreamsConfig
    restore_listener: StateRestoreListener | None = None
    uncaught_exception_handler: UncaughtExceptionHandler | None = None
    paused: bool = False
    """True if it starts paused."""
    standby_listener: StandbyUpdateListener | None = None
    take_over: bool = False
    """True if it takes the place of an application of the same id and state directory in another Ray cluster."""

    @property
    def application_id(self) -> str:
        """``application.id``."""
        return self.config.application_id
