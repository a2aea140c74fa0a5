"""Reports, and deletes, what an application has on disk on the nodes of its Ray cluster."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from penstock.actors.task_host.state_cleanup import LocalState, local_state, remove_local_state
from penstock.cluster.ray_cluster.ray_errors import last_line
from penstock.common.errors import StreamsError

_NODE_S = 60.0


@dataclass(frozen=True)
class NodeState:
    """The local state that is, or was, on one node, with its ``size`` in bytes; ``error``: why it is not known."""

    node: str
    directories: int = 0
    size: int = 0
    error: str | None = None


def look(directory: Path) -> list[NodeState]:
    """Returns the local state of the application with this ``directory`` on each node."""
    asked = list(_on_each_node(local_state, directory))
    return [_result(node, answer) for node, answer in asked]


def clean_up(directory: Path) -> list[NodeState]:
    """Delete the local state on each node; returns what it was. One node after the other: they may share a disk.

    Raises StreamsError naming the nodes where that was not possible, after all others are done.
    """
    done = [_result(node, answer) for node, answer in _on_each_node(remove_local_state, directory)]
    if failed := [f"on {each.node}: {each.error}" for each in done if each.error is not None]:
        raise StreamsError(f"the local state in {directory} is not deleted {'; '.join(failed)}")
    return done


def _on_each_node(
    work: Callable[[Path], LocalState], directory: Path
) -> Iterator[tuple[str, Callable[[], LocalState]]]:
    """Yields each node of the Ray cluster that this process is connected to, with a function that returns the result of
    ``work``, which begins when the iterator gets there. Without a connection, this machine is the only node."""
    if not ray.is_initialized():
        yield socket.gethostname(), partial(work, directory)
        return
    for node in ray.nodes():  # type: ignore[no-untyped-call]  # untyped in Ray
        if node["Alive"]:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            remote: Any = ray.remote(work).options(num_cpus=0, scheduling_strategy=there, enable_task_events=False)
            yield str(node["NodeManagerHostname"]), partial(_answer, remote.remote(directory))


def _answer(ref: Any) -> LocalState:
    found: LocalState = ray.get(ref, timeout=_NODE_S)
    return found


def _result(node: str, answer: Callable[[], LocalState]) -> NodeState:
    try:
        found = answer()
    except RayTaskError as error:
        return NodeState(node, error=str(error.cause or error))
    except RayError as error:  # the node has gone, or does not answer
        return NodeState(node, error=last_line(error))
    except (StreamsError, OSError) as error:
        return NodeState(node, error=str(error))
    return NodeState(node, found.directories, found.size)
