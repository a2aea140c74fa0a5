"""Checks that all stores and internal topics have names from the user.

For ``ensure.explicit.internal.resource.naming`` (KIP-1111).
"""

from __future__ import annotations

from penstock.common.errors import TopologyError
from penstock.topology.physical.topology import Topology

NAMING_KEY = "ensure.explicit.internal.resource.naming"


def check_explicit_names(topology: Topology) -> None:
    """Raises a TopologyError that lists all stores and internal topics with generated names, if there are any.

    Only stores and topics that exist count. A topic that is named after a store or an operator that the user has named
    has a name. Kafka Streams 4.3.1 also requires a name for the store of a table that is not kept, and for the topic of
    a join that is named after an operator; it requires none for the topics and the subscription store of a foreign-key
    join.
    """
    names, stores = topology.generated_names, topology.store_builders.values()
    changelogs = [f"{store.name}-changelog" for store in stores if store.name in names and store.logging]
    lists = {
        "changelog topic(s)": (changelogs, ""),
        "state store(s)": (
            [store.name for store in stores if store.name in names],
            (
                "Materialized.as_(name), StreamJoined.as_(name), Joined.as_(name), TableJoined.as_(name), "
                "Suppressed.….with_name(name), Deduplicated.as_(name)"
            ),
        ),
        "repartition topic(s)": (
            [topic for topic in topology.repartition_topics if topic in names],
            (
                "Grouped.as_(name), Joined.as_(name), StreamJoined.with_name(name), Repartitioned.as_(name), "
                "TableJoined.as_(name), Deduplicated.as_(name), Named.as_(name) of to_table"
            ),
        ),
    }
    problems = [
        f"\n  Following {what} has not been named: {', '.join(found)}" + (f" (by {by})" if by else "")
        for what, (found, by) in lists.items()
        if found
    ]
    if problems:
        raise TopologyError(
            f"{NAMING_KEY} is on, and generated names change with the topology: what was stored under them is not "
            "found again." + "".join(problems)
        )
