"""Asks one Ray cluster for its named actors, in a process of its own: ``python ray_probe.py HOST:PORT``.

Ray's client in C++ waits for minutes if nothing answers, and may end its process; this process may be ended at any
time. It needs no penstock, so it starts quickly. It prints one line of JSON: ``{"actors": [[namespace, name], ...]}``,
or ``{"refused": ...}`` when the cluster asks for a token, or ``{"failed": ...}``.
"""

from __future__ import annotations

import importlib
import json
import socket
import sys
from typing import Any

_CONNECT_S = 3.0


def named_actors_at(address: str) -> dict[str, Any]:
    """Returns the named actors that live there, or why they are not known, in the form that is printed."""
    from ray import exceptions
    from ray.exceptions import RayError

    # Ray has tokens, and this error, since 2.52: older ones refuse no process.
    refused: Any = getattr(exceptions, "AuthenticationError", ())
    raylet: Any = importlib.import_module("ray._raylet")  # compiled, without types
    table: Any = importlib.import_module("ray.core.generated.gcs_pb2").ActorTableData
    host, _, port = address.rpartition(":")
    try:
        # Ray tries again for long; an address where nothing listens, or that cannot be found, fails at once.
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
        raylet.GcsClient(address=address)
        state = raylet.GlobalStateAccessor(raylet.GcsClientOptions.create(address, None, True, False))
        if not state.connect():
            return {"failed": "it does not answer"}
        found = [table.FromString(row) for row in state.get_actor_table(None, None)]
    except refused as error:
        return {"refused": error.message}
    except (RayError, RuntimeError, ValueError, OSError) as error:
        return {"failed": str(error)}
    living = [it for it in found if it.name and it.state != table.DEAD]
    return {"actors": [[it.ray_namespace, it.name] for it in living]}


if __name__ == "__main__":
    print(json.dumps(named_actors_at(sys.argv[1])))
