"""``penstock drain-node``: stream actors leave the Ray node of this machine before it goes away."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.common.errors import ApplicationStateError


def register(app: typer.Typer) -> None:
    """Mount the command on the root."""
    app.command(name="drain-node")(drain_node)


def drain_node(
    within: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, help="Seconds until this machine goes away, at the latest")
    ] = 120,
) -> None:
    """Have the stream actors of all applications leave the Ray node of this machine, and wait until they have left.

    The actors commit, and their tasks move to other nodes. For the preStop hook of a Kubernetes pod.
    """
    import ray

    from penstock.cluster.ray_cluster import connections
    from penstock.cluster.ray_cluster.node_drain import drain

    cluster = connections.cluster_to_start_in()
    if cluster is None:
        raise ApplicationStateError("this machine has no Ray node: run the command on the machine that goes away")
    connections.connect_to_cluster(cluster, log_to_driver=False)
    if not drain(ray.get_runtime_context().get_node_id(), within, typer.echo):
        raise ApplicationStateError(
            f"stream actors are still on this node after {within} s: their uncommitted records are processed again. "
            "Give more --within seconds, and the pod a longer terminationGracePeriodSeconds"
        )
    typer.echo("No stream actor is on this node, and none will be started here")
