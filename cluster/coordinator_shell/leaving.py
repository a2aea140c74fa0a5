"""Leaves the consumer group after the end of an application."""

from __future__ import annotations

from penstock.actors.process.process_id import find_process_id
from penstock.cluster.names import static_member_id
from penstock.common.config import StreamsConfig
from penstock.common.errors import StreamsError
from penstock.common.log import logger

_LEAVE_S = 5.0
"""Least time that leaving may take, however long the actors took to end."""


def leave_group(config: StreamsConfig, left_s: float) -> str | None:
    """Remove the static member of an application whose coordinator has ended from the consumer group. Returns why that
    failed, which is also logged as a warning: then the member leaves when its session times out."""
    from penstock.kafka.group_tools import GroupTools

    tools = GroupTools(config.bootstrap_servers, config.client_entries("admin."))
    try:
        who = find_process_id(config.application_id)
        if who is not None:
            tools.free_static_member(
                config.application_id, static_member_id(config.application_id, who), max(left_s, _LEAVE_S)
            )
    except StreamsError as error:
        log = logger(__name__)
        log.warning("group not left: the static member stays until its session times out", error=str(error))
        return str(error)
    return None
