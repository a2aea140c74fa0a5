"""Conditions of a running application, for alerts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.cluster.missing_brokers import NONE_MISSING, BrokerLosses


@dataclass(frozen=True)
class Health:
    """The conditions of an application, as its coordinator knows them."""

    report_ages_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds since each stream actor gave its status, by actor id."""
    no_broker: bool = False
    """True if no broker answers, or all refuse the application."""
    no_session: bool = False
    """True if the session in the consumer group is lost: no task runs."""
    waiting_for_cpus: int = 0
    """Number of stream actors that do not start because no CPU is free."""
    unfit_nodes: int = 0
    """Number of nodes that get no stream actors for a while, because their disk fails."""
    brokers: BrokerLosses = NONE_MISSING
    """The brokers that are away while others answer, and the partitions that miss them."""


UNKNOWN = Health()
